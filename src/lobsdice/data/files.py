"""Atomic writing of files, CSV tables, and the folder of the cache."""

import csv
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
    disk is full, `path` stays as it was.
    """
    path = Path(path)
    temporary, old = _beside(path), _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if temporary.is_dir() and path.is_dir():
            os.replace(path, old)  # a folder cannot replace a folder that is not empty
        os.replace(temporary, path)
    except OSError as error:
        raise LobsDICEError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)
        for leftover in (temporary, old):
            _remove(leftover)


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
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with atomic(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator=line_end)
        writer.writeheader()
        writer.writerows(rows)
    return path


def cache_folder() -> Path:
    """The folder of collected data: $LOBSDICE_CACHE, or `lobsdice` in the user's cache folder."""
    if named := os.environ.get("LOBSDICE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lobsdice"
