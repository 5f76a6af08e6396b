"""HDF5 files in the layout of D4RL."""

from pathlib import Path

import h5py
import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.formats.flat import NAMES, read_flat
from lobsdice.data.formats.metadata import LABELS, SPACE, SUCCESS, label_entries, space_entries
from lobsdice.data.formats.options import ReadOptions
from lobsdice.errors import LobsDICEError

#: No compression has a larger ratio. A header that claims one is damaged.
COMPRESSION = 2000

#: The most bytes of an array that the file need not hold, because zeros that were never written are
#: not stored. Reading many small chunks of such zeros takes long, so that fewer are allowed.
SPARE, SPARE_IN_CHUNKS = 64 << 20, 4 << 20


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a file of flat transitions, and warnings."""
    with h5py.File(path, "r") as file:
        known = [name for names in (*NAMES.values(), SUCCESS) for name in names]
        stored = {name: _dataset(file, name) for name in known if name in file}
        return read_flat(stored, _metadata(file), options, listed=list(file))


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
    with atomic(path) as temporary, h5py.File(temporary, "w") as file:
        file["observations"] = episodes.observations[rows]
        file["next_observations"] = episodes.observations[rows + 1]
        for key, array in arrays.items():
            if array is not None:
                file[key] = array
        entries = space_entries(episodes.action_space) | label_entries(episodes)
        for key, array in entries.items():
            # Texts of fixed size: with others, a damaged file can hang the HDF5 library.
            text = array.dtype.kind == "U"
            file[f"metadata/{key}"] = np.char.encode(array, "utf-8") if text else array


def _metadata(file: h5py.File) -> dict[str, np.ndarray]:
    group = file.get("metadata")
    if not isinstance(group, h5py.Group):
        return {}
    return {key: np.asarray(_dataset(group, key)[()]) for key in SPACE + LABELS if key in group}


def _dataset(group: h5py.Group, name: str) -> h5py.Dataset:
    dataset = group[name]
    if not isinstance(dataset, h5py.Dataset):
        raise LobsDICEError(f"{name} must be an array, not a group")
    check_size(name, dataset)
    if dataset.dtype.kind not in "biufS":
        wanted = "texts of fixed size (dtype S)" if name.endswith("_names") else "numbers"
        raise LobsDICEError(f"{name} must be {wanted}, not {dataset.dtype}")
    return dataset


def check_size(name: str, dataset: h5py.Dataset | h5py.Group) -> None:
    """Raise an error if an array is larger than the file can hold, before it is read."""
    if isinstance(dataset, h5py.Group):
        return
    stored = dataset.id.get_storage_size()
    spare = SPARE if dataset.chunks is None else SPARE_IN_CHUNKS
    if dataset.nbytes > max(spare, COMPRESSION * stored):
        raise LobsDICEError(
            f"{name} claims to have {dataset.nbytes} bytes, but the file has only {stored} of them"
        )
