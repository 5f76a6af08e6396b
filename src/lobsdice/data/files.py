"""Atomic writing of files, CSV tables, and the folder of the cache."""

import csv
import io
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lobsdice.errors import LobsDICEError


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path for a file or a folder, which replaces `path` at the end of the block.

    Readers see the old contents or the new ones, never a part. If the block raises an error, or the
    disk is full, `path` stays as it was. After the block the new contents are on the disk, where
    they survive a power cut.
    """
    path = Path(path)
    temporary, old = _beside(path), _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        sync(temporary)  # a rename may reach the disk before the contents do
        if temporary.is_dir() and path.is_dir():
            os.replace(path, old)  # a folder cannot replace a folder that is not empty
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise LobsDICEError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)
        for leftover in (temporary, old):
            _remove(leftover)


def sync(path: Path) -> None:
    """Write a file, or a folder and all that is in it, from the system's memory to the disk."""
    if path.is_dir():
        for part in path.iterdir():
            sync(part)
        return sync_folder(path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Write the names in a folder to the disk."""
    with suppress(OSError):  # Windows and some network disks cannot
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _beside(path: Path) -> Path:
    """A new name in the same folder. It keeps the suffix, which some writers (np.savez) need."""
    return path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # the path does not exist, or its parent is a file
            path.unlink()


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], *, line_end: str = "\n") -> Path:
    """Write rows as CSV and return the path. Columns are in the order of their first appearance."""
    with atomic(path) as temporary:
        temporary.write_bytes(csv_bytes(rows, line_end=line_end))
    return path


def csv_bytes(rows: Sequence[Mapping[str, Any]], *, line_end: str = "\n") -> bytes:
    """The contents of the file that `write_csv` writes."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator=line_end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def cache_folder() -> Path:
    """The folder of collected data: $LOBSDICE_CACHE, or `lobsdice` in the user's cache folder."""
    if named := os.environ.get("LOBSDICE_CACHE"):
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lobsdice"
    except RuntimeError as error:
        raise LobsDICEError("there is no home folder; name a folder in $LOBSDICE_CACHE") from error
