"""Scores of logged steps, and those that a file or the user gives."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from lobsdice.data.prepare import Data
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError

Numbers = Float32[np.ndarray, " n"]
Advance = Callable[[int], None]


class Scores(NamedTuple):
    """One number for each logged step, in the order of `Data.offline`."""

    steps: Numbers
    beyond: Numbers
    """The score of the final state that a step leads to; of other steps, their own score."""
    unit: float = 1.0
    """A usual size of the scores, to compare them with."""


class Layout(NamedTuple):
    """Other facts about each logged step."""

    last: Bool[np.ndarray, " n"]
    """True for the last step of each episode."""
    ended: Bool[np.ndarray, " n"]
    """True for the steps to a final state: the last steps of episodes that terminated."""
    action_size: int
    """The number of coordinates of an action; 1 if actions are discrete."""


def layout(data: Data) -> Layout:
    """The ends of the logged episodes: where they are, and of which kind."""
    episode = episodes_of(data)
    last = np.append(episode[1:] != episode[:-1], True)
    space = data.action_space
    return Layout(last, ended_of(data), space.size if isinstance(space, Box) else 1)


def episodes_of(data: Data) -> np.ndarray:
    """The number of the episode of each logged step."""
    if data.episode is None:
        raise LobsDICEError("the data does not say which logged steps belong to one episode")
    return data.episode


def ended_of(data: Data) -> Bool[np.ndarray, " n"]:
    """True for each logged step that leads to a final state."""
    if data.ended is not None:
        return data.ended
    if data.ends is not None and len(data.ends.offline):
        raise LobsDICEError("the data does not say which logged steps lead to an end")
    return np.zeros(data.offline.size, bool)


def beyond(steps: Numbers, ends: Float32[np.ndarray, " e"], data: Data) -> Numbers:
    """The steps' scores, with those of the ends in the place of the steps that lead there."""
    found = steps.copy()
    found[ended_of(data)] = ends
    return found


def recorded(data: Data) -> Scores:
    """The rewards in the file of the logs, or those that `prepare` was given."""
    if data.rewards is None:
        raise LobsDICEError(
            "the offline data has no rewards; name their column with `reward_column`, give them "
            "to `prepare` as `rewards`, or choose another `reward`"
        )
    # Nothing is known of a reward after an end.
    ends = np.zeros(int(ended_of(data).sum()), np.float32)
    return Scores(data.rewards, beyond(data.rewards, ends, data))
