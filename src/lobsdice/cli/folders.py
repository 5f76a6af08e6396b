"""Folders of runs as a shell gives them: runs/* may hold more than runs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from lobsdice import console
from lobsdice.errors import LobsDICEError

Found = TypeVar("Found")


def readable(folders: Iterable[Path], read: Callable[[Path], Found]) -> dict[Path, Found]:
    """What `read` makes of each folder; what it refuses is left out, with a word about it."""
    found = {}
    for folder in folders:
        try:
            found[folder] = read(folder)
        except LobsDICEError as error:
            console.say(f"left out: {error}")
    return found
