"""The processors and the memory of this machine."""

import os
from contextlib import suppress
from pathlib import Path

#: Files with the most bytes that a container may use.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cores() -> int:
    """The number of processors that this process may use."""
    with suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """The bytes of memory that this process may use, without those that others use now."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            found.append(int(Path(path).read_text()))
    with suppress(OSError, StopIteration):  # not on every system
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable")))
    return min(found)
