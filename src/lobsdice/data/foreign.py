"""Checks on files that someone else made: what they are, and what they claim to hold."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from lobsdice.data.machine import memory
from lobsdice.errors import LobsDICEError

#: The largest ratio of the size of an array to its size in a file. No compression that the formats
#: use exceeds the first one. Recordings of more than `LARGE` bytes never come near the second one.
RATIO, RATIO_IF_LARGE = 2000, 100
LARGE = 256 << 20

#: The most characters of a library's own reason that an error repeats.
REASON = 300


def require_file(path: Path) -> int:
    """The size of a file; an error for what may have no end, such as a pipe or a device."""
    found = os.stat(path)
    mode = found.st_mode
    if stat.S_ISDIR(mode):
        raise LobsDICEError("it is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise LobsDICEError("it is a pipe or a device, not a file; copy its contents to a file")
    return found.st_size


def check_claim(
    what: str, claimed: int, stored: int, *, ratio: int | None = None, spare: int = 0
) -> None:
    """Raise an error if an array claims more bytes than the file or the memory can hold.

    `stored` are the bytes in the file. Up to `spare` bytes may be claimed without being stored.
    """
    ratio = ratio or (RATIO_IF_LARGE if claimed > LARGE else RATIO)
    if claimed > max(spare, ratio * stored):
        raise LobsDICEError(
            f"{what} claims to have {claimed:,} bytes, but the file has only {stored:,} of them"
        )
    if claimed > LARGE and claimed > (available := memory()):
        raise LobsDICEError(
            f"{what} has {claimed:,} bytes, but this machine has memory for {available:,}; split "
            "the file"
        )


def json_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text, as a dictionary."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise LobsDICEError("its JSON is nested too deeply") from error
    except ValueError as error:
        raise LobsDICEError(f"it is not valid JSON ({reason(error)})") from error
    if not isinstance(found, dict):
        raise LobsDICEError(f"its JSON must be an object in braces, not a {type(found).__name__}")
    return found


def reason(error: BaseException) -> str:
    """A library's message about an error, as one short line."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= REASON else f"{words[:REASON]}..."
