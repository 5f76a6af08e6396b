"""HDF5 files in the layout of D4RL."""

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5g, h5l, h5z  # pyright: ignore[reportAttributeAccessIssue]

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.foreign import check_claim
from lobsdice.data.formats.arrays import Arrays
from lobsdice.data.formats.choice import with_chosen
from lobsdice.data.formats.flat import read_flat
from lobsdice.data.formats.metadata import label_entries, space_entries
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.machine import at_most
from lobsdice.errors import LobsDICEError

#: The most bytes of an array that the file need not hold, because zeros that were never written are
#: not stored. Reading many small chunks of such zeros takes long, so that fewer are allowed.
SPARE, SPARE_IN_CHUNKS = 64 << 20, 4 << 20

#: Bytes of a compressed chunk that cannot become large, because the ratio is at most 1032.
SMALL_CHUNK = 128 << 10

#: The most memory for the structure of a file, without its arrays. The HDF5 library loops in some
#: damaged structures, and takes more and more.
STRUCTURE = 1 << 30


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a file of flat transitions or of robomimic, and warnings."""
    from lobsdice.data.formats.robomimic import is_robomimic, read_demos

    with h5py.File(path, "r") as file:
        if is_robomimic(file):
            return read_demos(file, options)
        stored = Arrays(names_in(file), lambda name: dataset_in(file, name))
        return with_chosen(read_flat(stored, metadata_of(file), options), options)


def parts(path: Path, options: ReadOptions) -> Iterator[tuple[Episodes, list[str]]]:
    """Yield the episodes in a file of flat transitions in parts, and warnings about each."""
    from lobsdice.data.formats.parts import flat_parts
    from lobsdice.data.formats.robomimic import is_robomimic, read_demos

    with h5py.File(path, "r") as file:
        if is_robomimic(file):
            yield read_demos(file, options)
            return
        stored = Arrays(names_in(file), lambda name: dataset_in(file, name))
        for part in flat_parts(stored, metadata_of(file), options):
            yield with_chosen(part, options)


def write(path: Path, episodes: Episodes) -> None:
    """Write D4RL's arrays, and `next_observations` so that no final state is lost."""
    rows = episodes.step_rows
    last = episodes.step_starts + episodes.lengths - 1
    terminals, timeouts = np.zeros((2, episodes.steps), bool)
    terminals[last], timeouts[last] = episodes.terminated, ~episodes.terminated
    arrays = {
        "actions": episodes.actions,
        "rewards": episodes.rewards,
        "terminals": terminals,
        "timeouts": timeouts,
    }
    with atomic(path) as temporary, new_file(temporary) as file:
        file["observations"] = episodes.observations[rows]
        file["next_observations"] = episodes.observations[rows + 1]
        for key, array in arrays.items():
            if array is not None:
                file[key] = array
        put(file, space_entries(episodes.action_space) | label_entries(episodes))


def put(file: h5py.File, metadata: Mapping[str, np.ndarray]) -> None:
    """Write arrays to the group `metadata`."""
    for key, array in metadata.items():
        # Texts of fixed size: with others, a damaged file can hang the HDF5 library.
        text = array.dtype.kind == "U"
        file[f"metadata/{key}"] = np.char.encode(array, "utf-8") if text else array


@contextmanager
def new_file(path: Path, **options: Any) -> Iterator[h5py.File]:
    """A file in memory, which is written to `path` at the end of the block.

    On a full disk, the HDF5 library itself would leave files open and crash later.
    """
    image = io.BytesIO()
    with h5py.File(image, "w", **options) as file:
        yield file
    path.write_bytes(image.getbuffer())


def metadata_of(file: h5py.File) -> Arrays[np.ndarray]:
    """The arrays of the group `metadata`, if there is one."""
    group = member(file, "metadata") if "metadata" in names_in(file) else None
    if not isinstance(group, h5py.Group):
        return Arrays([], np.asarray)
    return Arrays(names_in(group), lambda name: np.asarray(dataset_in(group, name)[()]))


def dataset_in(group: h5py.Group, name: str, *, texts: bool = False) -> h5py.Dataset:
    """An array of a group, which holds numbers or texts of fixed size; `texts`: of any size."""
    with at_most(STRUCTURE):
        dataset = member(group, name)
        if not isinstance(dataset, h5py.Dataset):
            raise LobsDICEError(f"{name} must be an array, not a group")
        check_array(name, dataset)
    if dataset.dtype.kind not in "biufS" and not (texts and h5py.check_string_dtype(dataset.dtype)):
        wanted = "texts of fixed size (dtype S)" if name.endswith("_names") else "numbers"
        raise LobsDICEError(f"{name} must be {wanted}, not {_kind(dataset.dtype)}")
    return dataset


def _kind(dtype: np.dtype) -> str:
    return "texts of any size" if h5py.check_string_dtype(dtype) else str(dtype)


def member(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset | h5py.Datatype:
    """The object of this name; an error for a link, which can lead to another file."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise _is_link(name)
    return group[name]


def names_in(group: h5py.Group) -> list[str]:
    """The names of a group's members."""
    with at_most(STRUCTURE):
        return [name.decode(errors="replace") for name in _each_once(group.id.links.iterate)]


def _each_once(iterate: Callable[..., Any]) -> dict[bytes, tuple[int, int]]:
    """The kind and the address of each link, by its name.

    In a damaged file they may come again for ever. Links are not followed.
    """
    links: dict[bytes, tuple[int, int]] = {}
    repeated: list[bytes] = []

    def take(name: bytes, link: Any) -> bool | None:
        # True ends the iteration. An error here would break the HDF5 library.
        if name in links:
            repeated.append(name)
            return True
        links[name] = link.type, link.u
        return None

    iterate(take, info=True)
    if repeated:
        raise LobsDICEError("its list of names is damaged")
    return links


def check_contents(file: h5py.File) -> None:
    """Raise an error unless all objects lie in the file itself, once, and all arrays are valid."""
    with at_most(STRUCTURE):
        # `h5o.get_info` would measure the group, for ever in some damaged files.
        seen = {h5g.get_objinfo(file.id).objno[0]}
        for name, (kind, address) in _each_once(file.id.links.visit).items():
            text = name.decode(errors="replace")
            if kind != h5l.TYPE_HARD:
                raise _is_link(text)
            if address in seen:  # groups that hold themselves or each other have no end
                raise LobsDICEError(f"{text} is another name of something else in the file")
            seen.add(address)
            if isinstance(found := file[name], h5py.Dataset):
                check_array(text, found)


def check_array(name: str, dataset: h5py.Dataset) -> None:
    """Raise an error if an array is not in the file itself, or larger than the file can hold."""
    made = dataset.id.get_create_plist()
    if dataset.is_virtual or made.get_external_count():
        raise LobsDICEError(f"{name} takes its numbers from other files; copy them into this one")
    if dataset.shape is None:
        raise LobsDICEError(f"{name} is empty")
    check_claim(
        name,
        prod(dataset.shape) * dataset.dtype.itemsize,
        min(dataset.id.get_storage_size(), dataset.file.id.get_filesize()),
        spare=SPARE if dataset.chunks is None else SPARE_IN_CHUNKS,
    )
    filters = [made.get_filter(i)[0] for i in range(made.get_nfilters())]
    if filters.count(h5z.FILTER_DEFLATE) > 1:
        raise LobsDICEError(f"{name} is compressed more than once")
    if filters:
        _check_chunks(name, dataset, h5z.FILTER_DEFLATE in filters)


def _check_chunks(name: str, dataset: h5py.Dataset, deflated: bool) -> None:
    """Raise an error if a compressed chunk is larger than a chunk is, now or after inflation.

    The HDF5 library inflates a chunk to its end, whatever the size that the file claims.
    """
    size = prod(dataset.chunks or ()) * dataset.dtype.itemsize
    chunks = []
    dataset.id.chunk_iter(chunks.append)
    for chunk in chunks:
        if chunk.size > 1.1 * size + 1024:
            raise LobsDICEError(
                f"{name} has a damaged chunk: it is larger than an uncompressed one"
            )
        if deflated and chunk.size > SMALL_CHUNK and not chunk.filter_mask:
            _, stored = dataset.id.read_direct_chunk(chunk.chunk_offset)
            if len(zlib.decompressobj().decompress(stored, size + 1024)) > size + 64:
                raise LobsDICEError(f"{name} has a damaged chunk: more than its numbers is in it")


def _is_link(name: str) -> LobsDICEError:
    return LobsDICEError(
        f"{name} is a link, and links can lead to other files; store the data here"
    )
