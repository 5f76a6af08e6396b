"""The distance of each demonstrated transition to the offline data, in units of the spacing there.

The spacing at an offline pair (s, s') is its distance to the nearest pair of *another* offline
episode. Pairs of the same episode do not count: they are always near each other, so that with them
every demonstration would look far away. All distances are between normalised pairs.

A lone offline pair has a large spacing, but covers nothing around it. Therefore the spacing has an
upper limit: its `SPARSE` quantile over the offline data. If the demonstrations lie closer together,
the limit is their quantile, but at least a quarter of the former. Repeated rows count once.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from lobsdice import console
from lobsdice.data.episodes import Episodes
from lobsdice.data.neighbours import SAMPLE, nearest, spacings

#: A transition is uncovered if its distance is more than this many times the spacing.
FACTOR = 2.0
#: The most demonstrated transitions that are compared; of more, every n-th is taken.
MOST_EXPERT = 5000
#: The fewest groups of steps; fewer episodes are cut into pieces.
PIECES = 5

Pairs = Float32[np.ndarray, "_ width"]


@dataclass(frozen=True, eq=False)
class Coverage:
    """Distances and spacings, one entry for each demonstrated transition that was compared."""

    episode: Int64[np.ndarray, " n"]
    step: Int64[np.ndarray, " n"]
    distance: Float64[np.ndarray, " n"]
    """The distance to the nearest offline pair."""
    spacing: Float64[np.ndarray, " n"]
    """The spacing at that offline pair."""
    neighbour: Int64[np.ndarray, " n"]
    """The number of that offline pair."""
    every: int
    """The stride: every n-th transition was compared."""
    sparse: float
    """The limit of the spacing."""
    names: tuple[str, ...] = ()
    """The names of all demonstrations, if they have some."""

    @property
    def ratio(self) -> Float64[np.ndarray, " n"]:
        """The distances divided by the spacings; 0 for pairs that occur in the offline data."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.distance == 0, 0.0, self.distance / self.spacing)

    @property
    def uncovered(self) -> Bool[np.ndarray, " n"]:
        """True for each transition that is too far from the offline data."""
        return self.ratio > FACTOR


@dataclass(frozen=True)
class Part:
    """Consecutive uncovered transitions of a demonstration."""

    episode: int
    name: str
    """The user's name of the episode."""
    first_step: int
    last_step: int
    median_ratio: float


def cover(
    expert: Pairs, expert_episodes: Episodes, offline: Pairs, offline_episodes: Episodes
) -> Coverage:
    """The distances of demonstrated pairs to the offline pairs, and the spacings there."""
    every = -(-len(expert) // MOST_EXPERT)
    ours, theirs = groups(expert_episodes), groups(offline_episodes)
    # At most: the spacings of two samples and of the neighbours are computed too.
    total = 2 * (len(expert[::every]) + SAMPLE)
    with console.progress("Comparing transitions", total) as advance:
        measured = distances(expert, ours, offline, theirs, every, advance)
    distance, neighbour, spacing, sparse = measured
    episode = expert_episodes.step_episodes
    step = expert_episodes.step_numbers
    found = (episode[::every], step[::every], distance, spacing, neighbour, every, sparse)
    return Coverage(*found, names=expert_episodes.episode_names)


def distances(
    expert: Pairs,
    expert_group: Int64[np.ndarray, " _"],
    offline: Pairs,
    offline_group: Int64[np.ndarray, " _"],
    every: int = 1,
    advance: console.Advance = lambda n: None,
) -> tuple[Float64[np.ndarray, " n"], Int64[np.ndarray, " n"], Float64[np.ndarray, " n"], float]:
    """The distance of every n-th demonstrated pair, its neighbour, the spacing there, its limit."""
    distance, neighbour = nearest(expert[::every], offline, advance=advance)
    spacing, usual = spacings(offline, offline_group, neighbour, advance)
    _, shown = spacings(expert, expert_group, neighbour[:0], advance)
    # At least a quarter, because demonstrations may be nearly copies of each other.
    sparse = float(np.clip(shown, usual / 4, usual))
    return distance, neighbour, np.minimum(spacing, sparse), sparse


def groups(episodes: Episodes) -> Int64[np.ndarray, " steps"]:
    """The group of each step: its episode, or a piece of its episode if there are few episodes."""
    if len(episodes) >= PIECES:
        return episodes.step_episodes
    pieces = -(-PIECES // len(episodes))
    piece = episodes.step_numbers * pieces // episodes.lengths[episodes.step_episodes]
    return episodes.step_episodes * pieces + piece


def parts(coverage: Coverage, expert: Episodes) -> list[Part]:
    """The uncovered parts of all demonstrations, longest first."""
    lengths = expert.lengths
    bad = coverage.uncovered
    # A transition stands for the steps up to the next one compared, or to the end of the episode.
    ends = np.minimum(coverage.step + coverage.every, lengths[coverage.episode])
    goes_on = bad[1:] & bad[:-1] & (coverage.episode[1:] == coverage.episode[:-1])
    first = np.flatnonzero(bad & ~np.concatenate([[False], goes_on]))
    last = np.flatnonzero(bad & ~np.concatenate([goes_on, [False]]))
    found = [
        Part(
            int(coverage.episode[i]),
            expert.called(int(coverage.episode[i])),
            int(coverage.step[i]),
            int(ends[j]) - 1,
            float(np.median(coverage.ratio[i : j + 1])),
        )
        for i, j in zip(first, last, strict=True)
    ]
    return sorted(found, key=lambda part: part.first_step - part.last_step)
