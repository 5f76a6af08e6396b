"""Episodes that were recorded once and are there twice, up to rounding: as NumPy and as CSV.

Two episodes are copies if they have as many steps, and if all their states agree: to `TOLERANCE`
standard deviations of each feature, and to a tenth of how far the episode goes. So a machine at
rest copies nothing. `repeats` finds the copies to the last bit.
"""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from lobsdice.data.display import listed
from lobsdice.data.episodes import Episodes
from lobsdice.data.repeats import batches, distinct_rows
from lobsdice.data.rows import offsets, ranges

#: The largest distance between the states of two copies, in standard deviations of each feature.
TOLERANCE = 0.02
#: The episode goes at least so many times as far, in one of its features.
FARTHER = 10.0
#: Episodes of fewer steps are no evidence: in much data some are alike by chance.
SHORTEST = 10
#: Rows from which the deviations are estimated, and the smallest deviation, as in the normaliser.
SAMPLE, SMALLEST = 100_000, 0.001
#: Episodes of more steps together may not fit into memory twice.
LARGE = 2_000_000
#: Numbers that are compared one by one at most; of more, a tree finds the nearest.
FEW = 10_000_000
#: Files are said to hold the same if this share of the episodes of one are in others.
MOST = 0.5
#: The most names in a sentence.
NAMED = 5

Numbers = Int64[np.ndarray, " n"]
Scale = Float32[np.ndarray, " width"]
Sketches = Float32[np.ndarray, "_ sketch"]


def copied(episodes: Episodes) -> Int64[np.ndarray, " episodes"]:
    """The first episode of which each one is a copy; its own number if it is none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    scale = _scale(episodes)
    sketches = _sketches(episodes, scale)
    first, place = distinct_rows(sketches)
    _, near = _nearest(sketches[first], sketches[first], 2).T
    one = np.concatenate([np.arange(len(episodes)), first[near >= 0]])
    other = np.concatenate([first[place], first[near[near >= 0]]])
    same = (one != other) & _alike(episodes, one, episodes, other, scale)
    size = (len(episodes), len(episodes))
    graph = coo_array((np.ones(same.sum()), (one[same], other[same])), shape=size)
    _, group = connected_components(graph, directed=False)
    return np.unique(group, return_index=True)[1][group]


def without_copies(episodes: Episodes) -> tuple[Episodes, Int64[np.ndarray, " kept"]]:
    """The episodes that are no copies of earlier ones, and their numbers; all of many steps."""
    numbers = np.arange(len(episodes))
    many = episodes.steps > LARGE
    kept = numbers if many else np.flatnonzero(copied(episodes) == numbers)
    return (episodes if len(kept) == len(numbers) else episodes.select(kept)), kept


def given_twice(offline: Episodes) -> list[str]:
    """A sentence for each source most of whose episodes are copies of those of other sources."""
    if offline.source is None or len(offline.source_names) < 2:
        return []
    source, found = offline.source, []
    elsewhere = source[copied(offline)]
    for number in np.unique(source):
        others = elsewhere[source == number]
        others, count = others[others != number], len(others)
        if len(others) >= MOST * count:
            names = listed([offline.source_names[i] for i in np.unique(others)], NAMED)
            found.append(
                f"{len(others):,} of {count:,} episodes of {offline.source_names[number]} are also "
                f"in {names}, up to rounding, and would count twice: leave one of the files out"
            )
    return found


def shown_twice(expert: Episodes, offline: Episodes) -> list[str]:
    """A sentence if demonstrations are also among the logs, where they come with the actions."""
    scale = _scale(offline)
    ours, theirs = (_sketches(episodes, scale) for episodes in (expert, offline))
    first, _ = distinct_rows(theirs)
    near = _nearest(ours, theirs[first], 1)[:, 0]
    shown = np.flatnonzero(near >= 0)
    logged = first[near[shown]]
    logged = logged[_alike(expert, shown, offline, logged, scale)]
    if not len(logged):
        return []
    names = listed([offline.called(i) for i in np.unique(logged)], NAMED)
    return [
        f"{len(logged):,} of {len(expert):,} demonstrations are also in the logs, up to rounding "
        f"(the logged episodes {names}), so that the logs show the demonstrator's actions: remove "
        "these"
    ]


def _scale(episodes: Episodes) -> Scale:
    rows = episodes.observations
    return rows[:: -(-len(rows) // SAMPLE)].std(axis=0) + np.float32(SMALLEST)


def _sketches(episodes: Episodes, scale: Scale) -> Sketches:
    """A short description of each episode: its first, middle and last state, and its length.

    Copies have nearly equal ones.
    """
    places = (episodes.starts, episodes.starts + episodes.lengths // 2, episodes.ends)
    states = [episodes.observations[rows] / scale for rows in places]
    return np.concatenate([*states, episodes.lengths[:, None].astype(np.float32)], axis=1)


def _nearest(queries: Sketches, points: Sketches, count: int) -> Int64[np.ndarray, "n count"]:
    """The numbers of the nearest points within `TOLERANCE`; -1 where there are no more."""
    if len(queries) * points.size <= FEW:
        return np.stack([_nearest_to(query, points, count) for query in queries])
    from scipy.spatial import KDTree  # it takes a while to import

    asked = {"k": range(1, count + 1), "p": np.inf, "distance_upper_bound": TOLERANCE}
    _, number = KDTree(points).query(queries, **asked)
    return np.where(number == len(points), -1, number)


def _nearest_to(
    query: Float32[np.ndarray, " sketch"], points: Sketches, count: int
) -> Int64[np.ndarray, " count"]:
    """The same for one query, by comparing it with each point."""
    apart = np.abs(points - query).max(axis=1)
    near = np.flatnonzero(apart < TOLERANCE)
    near = near[np.argsort(apart[near], kind="stable")][:count]
    return np.concatenate([near, np.full(count - len(near), -1)])


def _alike(
    ours: Episodes, one: Numbers, theirs: Episodes, other: Numbers, scale: Scale
) -> Bool[np.ndarray, " n"]:
    """True for each two episodes of one length that are copies."""
    sizes = ours.lengths[one] + 1
    found = np.zeros(len(one), bool)
    for some in batches(np.flatnonzero(sizes > SHORTEST), sizes):
        first = offsets(sizes[some])
        states = ours.observations[ranges(ours.starts[one[some]], sizes[some])] / scale
        others = theirs.observations[ranges(theirs.starts[other[some]], sizes[some])] / scale
        apart = np.maximum.reduceat(np.abs(states - others).max(axis=1), first)
        spans = np.maximum.reduceat(states, first) - np.minimum.reduceat(states, first)
        found[some] = (apart <= TOLERANCE) & (FARTHER * apart < spans.max(axis=1))
    return found
