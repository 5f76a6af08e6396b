"""The distance of each demonstrated transition to the offline data, in units of the spacing there.

The spacing at an offline pair (s, s') is its distance to the nearest pair of *another* offline
episode. Pairs of the same episode do not count: they are always near each other, so that with them
every demonstration would look far away. All distances are between normalised pairs.

A lone offline pair has a large spacing, but covers nothing around it. Therefore the spacing has an
upper limit: its `SPARSE` quantile over the offline data. If the demonstrations lie closer together,
the limit is their quantile, but at least a quarter of the former. Repeated rows count once.

Logs that are too many for memory pass by in blocks, twice: once for the distances and the limit,
and once for the spacings at the neighbours found. All of them are compared. In blocks one thing
differs: a pair that two episodes share may count as a neighbour of a pair of either.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from lobsdice import console
from lobsdice.data.episodes import Episodes
from lobsdice.data.logged import LoggedPairs
from lobsdice.data.neighbours import SAMPLE, SPARSE, Search, nearest, spacings
from lobsdice.data.repeats import distinct_rows

#: A transition is uncovered if its distance is more than this many times the spacing.
FACTOR = 2.0
#: The most demonstrated transitions that are compared; of more, every n-th is taken.
MOST_EXPERT = 5000
#: The fewest groups of steps; fewer episodes are cut into pieces.
PIECES = 5

Pairs = Float32[np.ndarray, "_ width"]
Measured = tuple[
    Float64[np.ndarray, " n"], Int64[np.ndarray, " n"], Float64[np.ndarray, " n"], float
]


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
    expert: Pairs, expert_episodes: Episodes, offline: Pairs | LoggedPairs, logs: Episodes
) -> Coverage:
    """The distances of demonstrated pairs to the offline pairs, and the spacings there."""
    every = -(-len(expert) // MOST_EXPERT)
    ours = groups(expert_episodes)
    streams = isinstance(offline, LoggedPairs)
    # At most, without streams: the spacings of two samples and of the neighbours are found too.
    total = 2 * (len(offline) if streams else len(expert[::every]) + SAMPLE)
    with console.progress("Comparing transitions", total) as advance:
        if streams:
            measured = streamed_distances(expert, ours, offline, every, advance)
        else:
            measured = distances(expert, ours, offline, groups(logs), every, advance)
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
) -> Measured:
    """The distance of every n-th demonstrated pair, its neighbour, the spacing there, its limit."""
    distance, neighbour = nearest(expert[::every], offline, advance=advance)
    spacing, usual = spacings(offline, offline_group, neighbour, advance)
    sparse = _sparse(expert, expert_group, usual, advance)
    return distance, neighbour, np.minimum(spacing, sparse), sparse


def streamed_distances(
    expert: Pairs,
    expert_group: Int64[np.ndarray, " _"],
    offline: LoggedPairs,
    every: int = 1,
    advance: console.Advance = lambda n: None,
) -> Measured:
    """The same for offline pairs that pass by in blocks."""

    def find(queries: Pairs, own: Int64[np.ndarray, "n 2"], first: int) -> Search:
        """The neighbours; those of queries from number `first` on are other pairs than they."""
        search = Search(queries, own=own, different=np.arange(first, len(queries)))
        for block in offline.blocks():
            search.add(block)
            advance(len(block))
        return search

    shown = expert[::every]
    drawn = _drawn(offline)
    nothing = np.zeros((len(shown), 2), np.int64)
    own = np.concatenate([nothing, own_group(offline.episodes, drawn)])
    near = find(np.concatenate([shown, offline.take(drawn)]), own, len(shown))
    distance, alone = np.split(near.distance, [len(shown)])
    usual = float(np.quantile(alone, SPARSE, method="higher"))
    where, back = np.unique(near.index[: len(shown)], return_inverse=True)
    spacing = find(offline.take(where), own_group(offline.episodes, where), 0).distance[back]
    sparse = _sparse(expert, expert_group, usual)
    return distance, where[back], np.minimum(spacing, sparse), sparse


def _drawn(offline: LoggedPairs) -> Int64[np.ndarray, " k"]:
    """Random steps whose pairs differ, to find the limit of the spacing."""
    random = np.random.default_rng(0)
    drawn = np.sort(random.choice(len(offline), min(SAMPLE, len(offline)), replace=False))
    return drawn[distinct_rows(offline.take(drawn))[0]]


def _sparse(
    expert: Pairs,
    group: Int64[np.ndarray, " _"],
    usual: float,
    advance: console.Advance = lambda n: None,
) -> float:
    """The limit of the spacing, which is `usual` or less."""
    _, shown = spacings(expert, group, np.arange(0), advance)
    # At least a quarter, because demonstrations may be nearly copies of each other.
    return float(np.clip(shown, usual / 4, usual))


def groups(episodes: Episodes) -> Int64[np.ndarray, " steps"]:
    """The group of each step: its episode, or a piece of its episode if there are few episodes."""
    if len(episodes) >= PIECES:
        return episodes.step_episodes
    pieces = -(-PIECES // len(episodes))
    piece = episodes.step_numbers * pieces // episodes.lengths[episodes.step_episodes]
    return episodes.step_episodes * pieces + piece


def own_group(episodes: Episodes, steps: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n 2"]:
    """The first step of each step's group, and the first step after that group."""
    pieces = 1 if len(episodes) >= PIECES else -(-PIECES // len(episodes))
    inside = -(-episodes.lengths[:, None] * np.arange(pieces) // pieces)
    starts = (episodes.step_starts[:, None] + inside).ravel()
    after = np.searchsorted(starts, steps, side="right")
    return np.stack([starts[after - 1], np.append(starts, episodes.steps)[after]], axis=1)


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
