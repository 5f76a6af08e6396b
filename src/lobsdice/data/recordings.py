"""Reading of the files that a user names, and the options to prepare them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lobsdice import console
from lobsdice.data.copies import given_twice, shown_twice
from lobsdice.data.episodes import Episodes, mixture, require_episodes
from lobsdice.data.formats import ReadOptions, read
from lobsdice.data.formats.folder import join
from lobsdice.data.formats.words import words_of_all_files
from lobsdice.data.prepare import Data, Initial, prepare
from lobsdice.data.units import different_units
from lobsdice.errors import DataWarning, LobsDICEError, MissingColumnError

#: Up to this many files of one episode each are told apart as sources.
FEW = 5


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
    pool: int | None = None
    """Logged steps in memory at a time, for data that is larger than memory; others take their
    place as training goes on. Without a number, all steps are in memory."""

    def __call__(
        self, expert: Episodes, offline: Episodes, labelled: Episodes | None = None
    ) -> Data:
        require_episodes(expert=expert, offline=offline)
        for unit in different_units(expert, offline):
            warnings.warn(unit.remark, DataWarning, stacklevel=2)
        with console.waiting("Preparing the data"):
            data = prepare(
                expert,
                offline,
                initial=self.initial,
                every=self.subsample,
                allow_leak=self.allow_leak,
                labelled=labelled,
                pool=self.pool,
            )
            shown = [] if self.allow_leak else shown_twice(expert, offline)
            for sentence in (*given_twice(offline), *shown):
                warnings.warn(sentence, DataWarning, stacklevel=2)
        return data


def read_one(path: str, options: ReadOptions) -> Episodes:
    """Read one file; if that takes a while, a notice says so."""
    with console.waiting(f"Reading {path}"):
        return read(path, options)


def read_together(paths: Sequence[str], options: ReadOptions) -> Episodes:
    """Read one file or folder as it is, or several as a mixture whose sources are their names.

    More than a few files that hold one episode each have no sources, like those of a folder.
    """
    if not paths:
        raise LobsDICEError("name at least one file; --help shows an example")
    if len(paths) == 1:
        return read_one(paths[0], options)
    options = replace(options, one_episode=True)
    stems = [Path(path).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else paths
    # Few formats can hold a name that is not UTF-8.
    names = [name.encode("utf-8", "backslashreplace").decode() for name in names]
    with words_of_all_files():
        parts = {name: read_one(path, options) for name, path in zip(names, paths, strict=True)}
    if len(parts) > FEW and all(len(part) == 1 for part in parts.values()):
        return join(names, list(parts.values()), [()] * len(parts))[0]
    return mixture(parts)


def read_both(
    expert: Sequence[str], offline: Sequence[str], options: ReadOptions
) -> tuple[Episodes, Episodes]:
    """Read demonstrations and logs with the same options."""
    try:
        with words_of_all_files():
            return read_unlabelled(expert, options), read_together(offline, options)
    except MissingColumnError as error:
        raise LobsDICEError(
            f"{error}; options about columns hold for demonstrations and logs alike: if these "
            "differ, first convert each with `lobsdice data convert`"
        ) from error


def read_unlabelled(paths: Sequence[str], options: ReadOptions) -> Episodes:
    """Read files that may lack the action columns that the options name."""
    return read_together(paths, options.unlabelled())
