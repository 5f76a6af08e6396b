"""The columns that the options name, of files that store arrays and the names of their columns."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats.columns import choose
from lobsdice.data.formats.options import IfThere, ReadOptions
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError

Part = tuple[Episodes, list[str]]


def with_chosen(part: Part, options: ReadOptions) -> Part:
    """The episodes with the columns that `observation_columns` and `action_columns` name."""
    episodes, notices = part
    episodes, more = _chosen_observations(episodes, options)
    return _chosen_actions(episodes, options), [*notices, *more]


def _chosen_observations(episodes: Episodes, options: ReadOptions) -> Part:
    names = episodes.observation_names
    if not options.observation_columns:
        return episodes, []
    if not names:
        return episodes, [
            "`observation_columns` was not used, because the file does not name its columns"
        ]
    places = _places(names, options.observation_columns, "observation")
    if places.tolist() == [*range(len(names))]:
        return episodes, []
    observations = np.ascontiguousarray(episodes.observations[:, places])
    found = tuple(names[i] for i in places)
    return replace(episodes, observations=observations, observation_names=found, valid=True), []


def _chosen_actions(episodes: Episodes, options: ReadOptions) -> Episodes:
    space, wanted = episodes.action_space, options.action_columns
    if not wanted or not isinstance(space, Box) or not space.names or episodes.actions is None:
        return episodes
    if isinstance(wanted, IfThere) and not choose(space.names, wanted, "action", strict=False):
        return episodes
    places = _places(space.names, wanted, "action")
    if places.tolist() == [*range(space.size)]:
        return episodes
    if options.action_low:
        raise LobsDICEError(
            "`action_low` and `action_high` are in the order of the file, so that they cannot be "
            "given with another order in `action_columns`; convert the file first"
        )
    low, high, names = (np.array(x)[places].tolist() for x in (space.low, space.high, space.names))
    space = replace(space, low=tuple(low), high=tuple(high), names=tuple(names))
    return replace(episodes, actions=episodes.actions[:, places], action_space=space, valid=True)


def _places(names: Sequence[str], patterns: Sequence[str], what: str) -> Int64[np.ndarray, " _"]:
    """The places of the columns that match the patterns, in the order of the patterns."""
    plain = [name.partition("*")[0] for name in names]  # without the factor of `scale`
    return np.array([plain.index(name) for name in choose(plain, patterns, what)], np.int64)
