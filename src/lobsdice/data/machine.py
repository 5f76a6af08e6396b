"""The processors of this machine."""

import os
from contextlib import suppress


def cores() -> int:
    """The number of processors that this process may use."""
    with suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
