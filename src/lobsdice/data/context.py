"""Features that never change in an episode, such as the place of a goal or a robot's weight.

Five demonstrations have five values of such a feature, however many rows they have. A discriminator
that sees thousands of rows takes the five for a rule: it knows the demonstrations by their goals,
and calls logged episodes with other goals bad, whatever happens in them. So it sees these features
blurred. The noise is the usual width of a kernel for as many points (Silverman, 1986, 4.14).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float32

from lobsdice.data.display import listed
from lobsdice.data.episodes import Episodes


def blur(expert: Episodes, offline: Episodes) -> Float32[np.ndarray, " state"] | None:
    """The noise for each feature in units of its deviation in the logs; None if all change."""
    found = constant_in_episodes(expert) & differs_between_episodes(offline)
    if not found.any():
        return None
    return found * np.float32(kernel_width(len(expert), int(found.sum())))


def differs_between_episodes(episodes: Episodes) -> Bool[np.ndarray, " state"]:
    """True for each feature that never changes within an episode, but from one to another."""
    # A feature that is the same in all episodes tells nothing apart.
    return constant_in_episodes(episodes) & (
        np.ptp(episodes.observations[episodes.starts], axis=0) > 0
    )


def constant_in_episodes(episodes: Episodes) -> Bool[np.ndarray, " state"]:
    """True for each feature that never changes within an episode."""
    x, rows = episodes.observations, episodes.step_rows
    # The most telling rows first: most features change in the first step of the first episode.
    found = x[rows[0]] == x[rows[0] + 1]
    for feature in np.flatnonzero(found):
        found[feature] = (x[rows, feature] == x[rows + 1, feature]).all()
    return found


def kernel_width(points: int, features: int) -> float:
    """Silverman's width of a Gaussian kernel, in standard deviations, for a number of points."""
    return (4 / ((features + 2) * points)) ** (1 / (features + 4))


def describe_blur(noise: Float32[np.ndarray, " state"] | None, names: Sequence[str]) -> str | None:
    """A sentence on the features that discriminators see blurred; None if there are none."""
    if noise is None:
        return None
    which = np.flatnonzero(noise).tolist()
    called = [names[i] if names else f"feature {i}" for i in which]
    verb = "changes" if len(called) == 1 else "change"
    return (
        f"{listed(called)} never {verb} in an episode; discriminators see "
        f"{'it' if len(called) == 1 else 'them'} blurred (--blur)"
    )
