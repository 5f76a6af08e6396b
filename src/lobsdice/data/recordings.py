"""Reading of the files that a user names, and the options to prepare them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lobsdice import console
from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.formats import ReadOptions, read
from lobsdice.data.prepare import Data, Initial, prepare
from lobsdice.errors import LobsDICEError


class Recordings(NamedTuple):
    """The episodes that a run learns from, before they are prepared."""

    expert: Episodes
    offline: Episodes
    labelled: Episodes | None = None
    """Demonstrations with actions, for the algorithms that need them."""


@dataclass(frozen=True)
class Preparation:
    """Options that turn recordings into training data; docs/data.md explains them."""

    initial: Initial = "first"
    """Offline states that stand for the initial states: the first state of each episode, or all
    states."""
    subsample: int = 1
    """Keep only every n-th transition of the demonstrations."""
    allow_leak: bool = False
    """Go on even if transitions of the demonstrations also occur in the offline data."""

    def __call__(
        self, expert: Episodes, offline: Episodes, labelled: Episodes | None = None
    ) -> Data:
        with console.waiting("Preparing the data"):
            return prepare(
                expert,
                offline,
                initial=self.initial,
                every=self.subsample,
                allow_leak=self.allow_leak,
                labelled=labelled,
            )


def read_one(path: str, options: ReadOptions) -> Episodes:
    """Read one file; if that takes a while, a notice says so."""
    with console.waiting(f"Reading {path}"):
        return read(path, options)


def read_together(paths: Sequence[str], options: ReadOptions) -> Episodes:
    """Read one file as it is, or several as a mixture whose sources are named after the files."""
    if not paths:
        raise LobsDICEError("name at least one file; --help shows an example")
    if len(paths) == 1:
        return read_one(paths[0], options)
    stems = [Path(path).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else paths
    # Few formats can hold a name that is not UTF-8.
    names = [name.encode("utf-8", "backslashreplace").decode() for name in names]
    return mixture({name: read_one(path, options) for name, path in zip(names, paths, strict=True)})


def read_unlabelled(path: str, options: ReadOptions) -> Episodes:
    """Read a file that may lack the action columns that the options name."""
    return read_one(path, options.unlabelled())
