"""Reading and writing episodes in all formats, which docs/formats.md describes."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from types import ModuleType

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.foreign import reason, require_file
from lobsdice.data.formats.options import DEFAULTS as DEFAULTS, ReadOptions as ReadOptions
from lobsdice.data.notices import notices
from lobsdice.errors import DataWarning, LobsDICEError, plain, plural


@dataclass(frozen=True)
class Format:
    """A file format, and the module here that reads and writes it."""

    name: str
    suffixes: tuple[str, ...]
    magic: bytes | None
    """The bytes that every such file begins with, if there are any."""
    module: str
    """Imported only when it is needed, because Arrow takes longer to import than a file to read."""

    def load(self) -> ModuleType:
        """Import the module, which has `read(path, options)` and `write(path, episodes)`."""
        return importlib.import_module(f"lobsdice.data.formats.{self.module}")


#: A file is recognised by its first bytes, else by its suffix.
FILES = (
    Format("NumPy archive", (".npz",), b"PK", "npz"),
    Format("HDF5 file", (".hdf5", ".h5", ".hdf"), b"\x89HDF\r\n\x1a\n", "hdf5"),
    Format("Parquet file", (".parquet", ".pq"), b"PAR1", "parquet"),
    Format("CSV file", (".csv", ".tsv"), None, "csv"),
)
MINARI = Format("Minari dataset", ("",), None, "minari")
FORMATS = (*FILES, MINARI)


def read(path_or_id: str | PathLike[str], options: ReadOptions = DEFAULTS) -> Episodes:
    """The episodes in a file, in a folder, or in a Minari dataset of the local cache.

    An error in the data is raised as a `LobsDICEError` that names the file. Data that is valid but
    odd gives a `DataWarning`.
    """
    with _explained(path_or_id), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the libraries, about damaged files
        kind, path = _recognise(path_or_id)
        episodes, found = kind.load().read(path, options)
        if options.time_limit is not None:
            episodes, more = _limited(episodes, options.time_limit)
            found += more
        found += notices(episodes)
    for notice in found:
        warnings.warn(f"{path_or_id}: {notice}", DataWarning, stacklevel=2)
    return episodes


def write(path: str | PathLike[str], episodes: Episodes) -> None:
    """Write episodes in the format of the suffix of `path`; if that fails, no file is left.

    Without a suffix, `path` is the folder of a Minari dataset.
    """
    path = Path(path)
    for kind in FORMATS:
        if path.suffix.lower() in kind.suffixes:
            return kind.load().write(path, episodes)
    raise LobsDICEError(
        f"{path}: no format has the suffix '{path.suffix}'; use {_suffixes()}, or no suffix for a "
        "Minari dataset"
    )


def _limited(episodes: Episodes, limit: int) -> tuple[Episodes, list[str]]:
    """The episodes, of which those of `limit` steps count as truncated, and warnings."""
    ended = episodes.terminated & (episodes.lengths != limit)
    longer = np.flatnonzero(episodes.lengths > limit)
    found = []
    if longer.size:
        steps = int(episodes.lengths[longer[0]])
        found.append(
            f"{plural(longer.size, 'episode')} took longer than `time_limit`: episode {longer[0]} "
            f"has {plural(steps, 'step')}"
        )
    return replace(episodes, terminated=ended, valid=True), found


def _recognise(path_or_id: str | PathLike[str]) -> tuple[Format, Path]:
    path = Path(path_or_id)
    if path.is_dir():
        return MINARI, path
    if not path.exists():
        return MINARI, _in_cache(str(path_or_id))
    require_file(path)
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise LobsDICEError("the file is empty")
    for kind in FILES:
        if kind.magic is not None and head.startswith(kind.magic):
            return kind, path
    for kind in FILES:
        if path.suffix.lower() in kind.suffixes:
            return kind, path
    raise LobsDICEError(f"the format is unknown; names of known files end in {_suffixes()}")


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
def _explained(path: str | PathLike[str]) -> Iterator[None]:
    """Turn every failure to read a file into one sentence that begins with its path."""
    try:
        yield
    except LobsDICEError as error:
        raise LobsDICEError(f"{path}: {plain(str(error))}") from error
    except MemoryError as error:
        raise LobsDICEError(f"{path}: it is too large for the memory, or damaged") from error
    except Exception as error:  # damaged files make parsers raise errors of nearly every type
        raise LobsDICEError(
            f"{path}: it cannot be read and may be damaged ({reason(error)})"
        ) from error


def _suffixes() -> str:
    *others, last = (suffix for kind in FILES for suffix in kind.suffixes)
    return f"{', '.join(others)} or {last}"
