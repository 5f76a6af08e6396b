"""The processors and the memory of this machine."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Files with the most bytes that a container may use.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
#: The bytes of memory that nobody could claim.
UNBOUNDED = sys.maxsize


def cores() -> int:
    """The number of processors that this process may use."""
    with suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """The bytes of memory that this process may use, without those that others use now.

    `UNBOUNDED` if the system does not tell.
    """
    found = [UNBOUNDED]
    with suppress(AttributeError, ValueError, OSError):  # not on Windows
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in LIMITS:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            found.append(int(Path(path).read_text()))
    with suppress(OSError, StopIteration):  # not on every system
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable")))
    return min(found)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Let this process take no more than `size` bytes of memory in addition, if the system can.

    A library that asks for more gets an error. It is for moments in which other threads rest.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):  # on other systems
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * os.sysconf("SC_PAGE_SIZE") + size
    limits = [limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
