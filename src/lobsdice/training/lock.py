"""A lock on a run folder: a file that one process at a time can hold.

The system frees the lock when the process ends in any way, so that a killed training leaves none.
Where there are no such locks (Windows, some network disks), training goes on without, and says so.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lobsdice.errors import LobsDICEError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = "lock"


class BusyError(LobsDICEError):
    """Another process is writing to the same folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it does not exist.

    The lock holds against all processes of this machine and, if their disk supports it, of others.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = _open_locked(path)
    except OSError as error:
        raise LobsDICEError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the lock is free: later it may be another's
        os.close(number)


def _open_locked(path: Path) -> int:
    """Open and lock a file. Whoever held it before may have removed it: then there is a new one."""
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(number, path)
            if _is_at(number, path):
                return number
        except BaseException:
            os.close(number)
            raise
        os.close(number)


def _is_at(number: int, path: Path) -> bool:
    """True if an open file still has this path."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


def _lock(number: int, path: Path) -> None:
    try:
        if fcntl is None:
            raise OSError("this system has no locks")
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(
            f"another process is training in {path.parent}; wait for its end, or choose another "
            "folder"
        ) from error
    except OSError as error:
        warnings.warn(
            f"{path.parent} cannot be locked here ({error}): do not train in it twice at once",
            UserWarning,
            stacklevel=2,
        )
