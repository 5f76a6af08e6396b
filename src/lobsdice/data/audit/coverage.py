"""Is there offline data near each demonstrated transition?

The distance of a demonstrated pair (s, s'), in normalised units, to its nearest offline pair says
little by itself. It is compared with how far that offline pair is from the nearest one of *another*
offline episode: successive steps of one episode are near each other whatever the data covers, so
that neighbours of the same episode would make every demonstration look far away.

An offline pair that is itself alone cannot vouch for its surroundings, so that the spacing counts
at most as its `SPARSE` quantile: that over the offline data or, where demonstrations lie closer
together, that over them, but at least a quarter of the former. Repeated rows count once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.neighbours import nearest
from lobsdice.data.repeats import row_hashes

#: A transition is uncovered if it is this many times farther off than offline pairs are apart.
FACTOR = 2.0
#: The quantile of the spacing above which data counts as sparse.
SPARSE = 0.9
#: The spacing's quantile is estimated from this many offline pairs.
SAMPLE = 2000
#: Of longer demonstrations every n-th transition is looked at.
MOST_EXPERT = 5000
#: Recordings of fewer episodes are cut into at least this many pieces.
PIECES = 5

Pairs = Float32[np.ndarray, "_ width"]


@dataclass(frozen=True, eq=False)
class Coverage:
    """One entry for each transition looked at."""

    episode: Int64[np.ndarray, " n"]
    step: Int64[np.ndarray, " n"]
    distance: Float64[np.ndarray, " n"]
    """To the nearest offline pair."""
    spacing: Float64[np.ndarray, " n"]
    """Of the offline data there."""
    neighbour: Int64[np.ndarray, " n"]
    """The offline step that is nearest."""
    every: int
    """Every how many-th transition was looked at."""
    sparse: float
    """The largest spacing that counts."""

    @property
    def ratio(self) -> Float64[np.ndarray, " n"]:
        """Distances in multiples of the spacing; 0 where the very pair is in the offline data."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.distance == 0, 0.0, self.distance / self.spacing)

    @property
    def uncovered(self) -> Bool[np.ndarray, " n"]:
        return self.ratio > FACTOR


@dataclass(frozen=True)
class Part:
    """Successive transitions of a demonstration that the offline data does not cover."""

    episode: int
    first_step: int
    last_step: int
    median_ratio: float


def cover(
    expert: Pairs,
    expert_episodes: Episodes,
    offline: Pairs,
    offline_episodes: Episodes,
    advance: Callable[[int], None] = lambda n: None,
) -> Coverage:
    """Distances of demonstrated pairs to offline pairs, beside the spacing of the latter."""
    every = stride(len(expert))
    distance, neighbour = nearest(expert[::every], offline, advance=advance)
    spacing, usual = spacings(offline, groups(offline_episodes), neighbour, advance)
    _, shown = spacings(expert, groups(expert_episodes), neighbour[:0], advance)
    # A quarter: demonstrations that are nearly copies of each other say nothing about sparse data.
    sparse = float(np.clip(shown, usual / 4, usual))
    spacing = np.minimum(spacing, sparse)
    episode = expert_episodes.step_episodes
    step = expert_episodes.step_numbers
    return Coverage(episode[::every], step[::every], distance, spacing, neighbour, every, sparse)


def stride(transitions: int) -> int:
    return -(-transitions // MOST_EXPERT)


def spacings(
    pairs: Pairs,
    group: Int64[np.ndarray, " n"],
    of: Int64[np.ndarray, " k"],
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[Float64[np.ndarray, " k"], float]:
    """The distance of some pairs to the nearest of another group; the `SPARSE` quantile over all.

    The latter is estimated from a random sample.
    """
    points, place = _distinct(pairs)
    sample = np.random.default_rng(0).permutation(len(points))[:SAMPLE]
    asked, back = np.unique(np.concatenate([sample, place[of]]), return_inverse=True)
    chosen, point_group = points[asked], group[points]
    excluded = (point_group[asked], point_group)
    distance, _ = nearest(pairs[chosen], pairs[points], excluded=excluded, advance=advance)
    sampled, asked_for = np.split(distance[back], [len(sample)])
    return asked_for, float(np.quantile(sampled, SPARSE, method="higher"))


def groups(episodes: Episodes) -> Int64[np.ndarray, " steps"]:
    """The episode of each step; a few episodes are cut into pieces that stand for episodes."""
    if len(episodes) >= PIECES:
        return episodes.step_episodes
    pieces = -(-PIECES // len(episodes))
    piece = episodes.step_numbers * pieces // episodes.lengths[episodes.step_episodes]
    return episodes.step_episodes * pieces + piece


def parts(coverage: Coverage, lengths: Int64[np.ndarray, " episodes"]) -> list[Part]:
    """The uncovered stretches of every demonstration, whose lengths are given, longest first."""
    bad = coverage.uncovered
    # What was looked at stands for the steps up to the next that was, or to the episode's end.
    ends = np.minimum(coverage.step + coverage.every, lengths[coverage.episode])
    goes_on = bad[1:] & bad[:-1] & (coverage.episode[1:] == coverage.episode[:-1])
    first = np.flatnonzero(bad & ~np.concatenate([[False], goes_on]))
    last = np.flatnonzero(bad & ~np.concatenate([goes_on, [False]]))
    found = [
        Part(
            int(coverage.episode[i]),
            int(coverage.step[i]),
            int(ends[j]) - 1,
            float(np.median(coverage.ratio[i : j + 1])),
        )
        for i, j in zip(first, last, strict=True)
    ]
    return sorted(found, key=lambda part: part.first_step - part.last_step)


def _distinct(rows: Pairs) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " n"]]:
    """The rows that no earlier row equals, in order, and for each row its place among them."""
    _, first, inverse = np.unique(row_hashes(rows), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order].astype(np.int64), rank[inverse].astype(np.int64)
