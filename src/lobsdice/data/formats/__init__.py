"""Reading and writing episodes in all formats, which docs/formats.md describes."""

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lobsdice import console
from lobsdice.data.episodes import Episodes, require_episodes
from lobsdice.data.foreign import reason, require_file
from lobsdice.data.formats.options import (
    DEFAULTS as DEFAULTS,
    ReadOptions as ReadOptions,
    read_options,
)
from lobsdice.data.formats.scale import scaled_observations, unused_factors
from lobsdice.data.formats.words import Words, sentences
from lobsdice.data.notices import notices
from lobsdice.errors import DataWarning, LobsDICEError, plain, plural


@dataclass(frozen=True)
class Format:
    """A format of files or folders, and the module here that reads and writes it."""

    key: str
    """Its name on the command line."""
    name: str
    suffixes: tuple[str, ...]
    module: str
    """Imported only when it is needed, because Arrow takes longer to import than a file to read."""
    magic: tuple[bytes, ...] = ()
    """The bytes that such files begin with, if there are any."""
    marks: tuple[str, ...] = ()
    """Patterns of files that only such folders hold."""
    writer: str = "write"

    def load(self) -> ModuleType:
        """Import the module, which has `read(path, options)` and `write(path, episodes)`."""
        return importlib.import_module(f"lobsdice.data.formats.{self.module}")


#: A file is recognised by its first bytes, else by its suffix.
FILES = (
    Format("npz", "NumPy archive", (".npz",), "npz", (b"PK",)),
    Format("hdf5", "HDF5 file", (".hdf5", ".h5", ".hdf"), "hdf5", (b"\x89HDF\r\n\x1a\n",)),
    Format("parquet", "Parquet file", (".parquet", ".pq"), "parquet", (b"PAR1",)),
    Format(
        "csv",
        "CSV file",
        (".csv", ".tsv", ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst"),
        "csv",
        (b"\x1f\x8b", b"\x28\xb5\x2f\xfd"),  # of compressed ones
    ),
)
#: HDF5 files of another layout, which `hdf5` recognises.
ROBOMIMIC = Format("robomimic", "robomimic file", (".robomimic.hdf5",), "robomimic")
#: A folder is recognised by the files in it.
LEROBOT = ("meta/info.json",)
FOLDERS = (
    Format("lerobot", "LeRobot dataset", (".lerobot",), "lerobot", marks=LEROBOT),
    Format(
        "lerobot-v2.1",
        "LeRobot dataset of version 2.1",
        (".lerobot-v2.1",),
        "lerobot",
        marks=LEROBOT,
        writer="write_v21",
    ),
    Format("rlds", "RLDS dataset", (".rlds",), "rlds", marks=("features.json", "*/features.json")),
    Format("columns", "folder of columns", (".columns",), "mapped", marks=("columns.json",)),
    Format(
        "minari", "Minari dataset", ("",), "minari", marks=("metadata.json", "data/metadata.json")
    ),
)
MINARI = FOLDERS[-1]
FORMATS = (*FILES, ROBOMIMIC, *FOLDERS)


#: The most warnings about files that are read in parts.
MOST_WARNINGS = 10

#: Files that begin as NumPy archives do, and are none.
OTHER_ARCHIVES = (".zip", ".xlsx", ".ods")


def read(
    path_or_id: str | PathLike[str], options: ReadOptions = DEFAULTS, **keywords: Any
) -> Episodes:
    """The episodes in a file, in a folder, in files that match a pattern, or in a Minari dataset.

    A folder is a dataset that docs/formats.md describes, or its files are one episode each.
    Keywords are the fields of `ReadOptions`: `read("logs.csv", episode_column="run")`. An error in
    the data is raised as a `LobsDICEError` that names the file. Data that is valid but odd gives a
    `DataWarning`.
    """
    options = read_options(options, keywords)
    with explained(path_or_id), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the libraries, about damaged files
        episodes, found = _read(path_or_id, options)
    return finished(str(path_or_id), episodes, found, options, stacklevel=3)


def read_parts(path_or_id: str | PathLike[str], options: ReadOptions) -> Iterator[Episodes]:
    """Yield the episodes in parts that fit into memory, of files that can be read so.

    These are CSV, Parquet and HDF5 files, and patterns of them. Others are one part.
    """
    from lobsdice.data.formats.folder import natural

    path, said, words = Path(path_or_id), set(), []
    named = has_magic(str(path)) and not path.exists()
    files = [Path(name) for name in glob(str(path), recursive=True)] if named else [path]
    if not files:
        raise LobsDICEError(f"{path}: {_no_file()}")
    for file in sorted(files, key=natural):
        reader = getattr(_kind_of(file).load(), "parts", None) if file.is_file() else None
        if reader is None:
            yield read(file, options)
            continue
        with explained(file), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for episodes, found in reader(file, replace(options, one_episode=named)):
                words += [item for item in found if isinstance(item, Words)]
                said.update(f"{file}: {item}" for item in found if not isinstance(item, Words))
                yield _as_wanted(episodes, options)
    said.update(f"{path}: {sentence}" for sentence in sentences(words))
    for sentence in sorted(said)[:MOST_WARNINGS]:
        warnings.warn(sentence, DataWarning, stacklevel=2)


def _as_wanted(episodes: Episodes, options: ReadOptions) -> Episodes:
    """The episodes of a part in the units and with the time limit of the options."""
    episodes = scaled_observations(episodes, options)
    if options.time_limit is None:
        return episodes
    return _limited(episodes, options.time_limit)[0]


def finished(
    name: str, episodes: Episodes, found: list[str], options: ReadOptions, *, stacklevel: int = 4
) -> Episodes:
    """The episodes as the options want them; warn of all that was found."""
    with explained(name):
        episodes = scaled_observations(episodes, options)
        found = [*sentences(found), *unused_factors(episodes, options)]
        if options.time_limit is not None:
            episodes, more = _limited(episodes, options.time_limit)
            found += more
        found += notices(episodes)
    for notice in found:
        warnings.warn(f"{name}: {notice}", DataWarning, stacklevel=stacklevel)
    return episodes


def write(path: str | PathLike[str], episodes: Episodes, *, to: str | None = None) -> None:
    """Write episodes in the format of the suffix of `path`; if that fails, no file is left.

    Without a suffix, `path` is the folder of a Minari dataset. `to` is the key of another format.
    """
    require_episodes(episodes=episodes)
    path = Path(path)
    kind = _wanted(path, to)
    getattr(kind.load(), kind.writer)(path, episodes)


def _wanted(path: Path, to: str | None) -> Format:
    """The format to write; of several suffixes, the longest counts."""
    if to is not None:
        if found := next((kind for kind in FORMATS if kind.key == to), None):
            return found
        keys = ", ".join(kind.key for kind in FORMATS)
        raise LobsDICEError(f"{path}: there is no format {to!r}; there are: {keys}")
    name, pairs = path.name.lower(), [(s, kind) for kind in FORMATS for s in kind.suffixes if s]
    fitting = [(len(suffix), kind) for suffix, kind in pairs if name.endswith(suffix)]
    if fitting:
        return max(fitting, key=lambda pair: pair[0])[1]
    if not path.suffix:
        return MINARI
    raise LobsDICEError(
        f"{path}: no format has the suffix '{path.suffix}'; use {_suffixes()}, or no suffix for a "
        "Minari dataset"
    )


def _read(path_or_id: str | PathLike[str], options: ReadOptions) -> tuple[Episodes, list[str]]:
    path = Path(path_or_id)
    if not path.exists() and has_magic(str(path)):
        files = [Path(name) for name in glob(str(path), recursive=True)]
        return _read_each([file for file in files if file.is_file()], options)
    if path.is_dir():
        kind = next((k for k in FOLDERS if any(next(path.glob(m), None) for m in k.marks)), None)
        if kind is None:
            return _read_each(_files_in(path), options)
        return kind.load().read(path, options)
    if not path.exists():
        return MINARI.load().read(_in_cache(str(path_or_id)), options)
    return _kind_of(path).load().read(path, options)


def _read_each(paths: Sequence[Path], options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in several files, one an episode or more, and warnings."""
    from lobsdice.data.formats.folder import join, natural, told_apart

    if not paths:
        raise LobsDICEError(_no_file())
    paths = sorted(paths, key=natural)
    names = told_apart(paths)
    options, parts, found = replace(options, one_episode=True), [], []
    with console.progress(f"Reading {plural(len(paths), 'file')}", len(paths)) as advance:
        for name, path in zip(names, paths, strict=True):
            with explained(name):
                episodes, said = _kind_of(path).load().read(path, options)
            parts.append(episodes)
            found.append(said)
            advance()
    return join(names, parts, found)


def _files_in(folder: Path) -> list[Path]:
    """The files of a folder that may be recordings, all of one format."""
    found: dict[str, list[Path]] = {}
    for path in folder.iterdir():
        for kind in FILES:
            if path.is_file() and path.name.lower().endswith(kind.suffixes) and path.name[0] != ".":
                found.setdefault(kind.name, []).append(path)
    if len(found) > 1:
        raise LobsDICEError(
            f"the folder holds files of several formats: {' and '.join(sorted(found))}; name some "
            "with a pattern, such as 'folder/*.csv'"
        )
    if not found:
        raise LobsDICEError(
            "the folder holds no dataset and no file of a known format; a pattern such as "
            "'folder/**/*.csv' names files in the folders below"
        )
    return next(iter(found.values()))


def _limited(episodes: Episodes, limit: int) -> tuple[Episodes, list[str]]:
    """The episodes, of which those of `limit` steps count as truncated, and warnings."""
    ended = episodes.terminated & (episodes.lengths != limit)
    longer = np.flatnonzero(episodes.lengths > limit)
    found = []
    if longer.size:
        steps = int(episodes.lengths[longer[0]])
        found.append(
            f"{plural(longer.size, 'episode')} took longer than `time_limit`: episode "
            f"{episodes.called(longer[0])} has {plural(steps, 'step')}"
        )
    return replace(episodes, terminated=ended, valid=True), found


def _kind_of(path: Path) -> Format:
    require_file(path)
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise LobsDICEError("the file is empty")
    for kind in FILES:
        if kind.magic and head.startswith(kind.magic) and path.suffix.lower() not in OTHER_ARCHIVES:
            return kind
    for kind in FILES:
        if path.name.lower().endswith(kind.suffixes):
            return kind
    raise LobsDICEError(
        f"the format is unknown; names of known files end in {_suffixes()}; a table of text may be "
        "renamed to .csv, and what Python can read becomes episodes with "
        "ld.Episodes.from_dataframe or ld.Episodes.from_arrays"
    )


def _in_cache(name: str) -> Path:
    from lobsdice.data.formats.minari import cached, is_id

    if not is_id(name):
        raise LobsDICEError("there is no such file or folder")
    if (folder := cached(name)) is None:
        raise LobsDICEError(
            "there is no such folder, and no such dataset in Minari's local cache; try "
            f"`minari download {name}`"
        )
    return folder


@contextmanager
def explained(path: str | PathLike[str]) -> Iterator[None]:
    """Turn every failure to read a file into one sentence that begins with its path."""
    try:
        yield
    except LobsDICEError as error:
        raise type(error)(f"{path}: {plain(str(error))}") from error
    except MemoryError as error:
        raise LobsDICEError(f"{path}: it is too large for the memory, or damaged") from error
    except Exception as error:  # damaged files make parsers raise errors of nearly every type
        raise LobsDICEError(
            f"{path}: it cannot be read and may be damaged ({reason(error)})"
        ) from error


def _no_file() -> str:
    return f"there is no file of a known format; names end in {_suffixes()}"


def _suffixes() -> str:
    *others, last = (suffix for kind in FILES for suffix in kind.suffixes)
    return f"{', '.join(others)} or {last}"
