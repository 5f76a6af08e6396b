"""Compiled programs, kept on the disk: the next training of the same kind starts at once.

Most of the time before the first step goes to compilation, and JAX can keep what it compiled.
"""

import hashlib
import os
import platform
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from lobsdice.data.files import cache_folder
from lobsdice.errors import LobsDICEError

#: The programs that are kept, in bytes. The oldest are removed first.
MOST = 500_000_000


def keep_programs() -> None:
    """Let JAX keep compiled programs in `cache_folder()/programs`, unless it keeps them elsewhere.

    $JAX_ENABLE_COMPILATION_CACHE=false turns this off, and $JAX_COMPILATION_CACHE_DIR names another
    folder. Both are JAX's own.
    """
    config: Any = jax.config
    if not config.jax_enable_compilation_cache or config.jax_compilation_cache_dir:
        return
    with suppress(OSError, LobsDICEError):  # no home, or no right to write: then without it
        folder = cache_folder() / "programs" / _machine()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not private(folder):
            return
        shorten(folder)
        config.update("jax_compilation_cache_dir", str(folder))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def private(folder: Path) -> bool:
    """True if nobody else can put a program there, which would then be executed."""
    if not hasattr(os, "getuid"):  # on Windows the user's folders are private
        return os.access(folder, os.W_OK)
    found = folder.stat()
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.getuid() and not shared and os.access(folder, os.W_OK)


def shorten(folder: Path, most: int = MOST) -> None:
    """Remove the oldest files of a folder until the others have at most so many bytes."""
    found = sorted(((path.stat(), path) for path in folder.iterdir()), key=lambda x: x[0].st_mtime)
    size = sum(entry.st_size for entry, _ in found)
    for entry, path in found:
        if size <= most:
            return
        path.unlink(missing_ok=True)
        size -= entry.st_size


def _machine() -> str:
    """A name for machines that can run each other's programs: homes may be shared by several."""
    lines: list[str] = []
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    known = (platform.machine(), platform.processor(), flags)
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
