"""Nearest neighbours by matrix products: a k-d tree is slower in 20 to 60 dimensions.

State pairs (s, s') have so many, and a k-d tree then visits nearly every leaf. The neighbour is the
nearest row up to float32 rounding. Its distance is exact.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float32, Float64, Int64

from lobsdice.data.machine import cores
from lobsdice.data.repeats import distinct_rows, row_hashes
from lobsdice.data.rows import ranges

#: The products of one block take 4 MB, which fit the processor's cache.
POINTS, QUERIES = 2048, 512

#: The quantile of the spacings at all rows, and the number of random rows that it is taken from.
SPARSE, SAMPLE = 0.9, 2000

Rows = Float32[np.ndarray, "_ width"]
Groups = Int64[np.ndarray, " _"]


def nearest(
    queries: Float32[np.ndarray, "queries width"],
    points: Float32[np.ndarray, "points width"],
    *,
    excluded: tuple[Int64[np.ndarray, " queries"], Int64[np.ndarray, " points"]] | None = None,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[Float64[np.ndarray, " queries"], Int64[np.ndarray, " queries"]]:
    """The distance from each query to its nearest point, and the number of that point.

    `excluded` holds a group number for each query and for each point, the latter in ascending
    order. Points of a query's own group do not count. If there are no others, the distance is
    infinite. `advance` is called with the number of queries done since its last call.
    """
    own = None if excluded is None else _own(*excluded)
    search = Search(queries, own=own)
    search.add(points, advance=advance)
    return search.distance, search.index


class Search:
    """The nearest point of each query, among points that come block by block.

    `own` has the number of the first point that does not count for a query, and that of the next
    one that does. Points that equal one of the queries numbered `different` do not count for it.
    """

    def __init__(
        self,
        queries: Rows,
        *,
        own: Int64[np.ndarray, "queries 2"] | None = None,
        different: Int64[np.ndarray, " k"] | None = None,
    ):
        self.queries, self.own = queries, own
        self.copies = None if different is None else _Copies(queries, different)
        self.count = 0
        """The number of points so far."""
        self.index = np.zeros(len(queries), np.int64)
        """The number of the nearest point of each query."""
        self.best = np.full(len(queries), -np.inf, np.float32)
        self.points = np.zeros_like(queries)

    @property
    def distance(self) -> Float64[np.ndarray, " queries"]:
        """The distance to the nearest point of each query; infinite if there is none."""
        apart = np.linalg.norm(self.queries.astype(np.float64) - self.points, axis=1)
        return np.where(self.best > -np.inf, apart, np.inf)

    def add(self, points: Rows, advance: Callable[[int], None] = lambda n: None) -> None:
        """Look at more points. `advance` is called with the number of queries that have done so."""
        extended = _extended(points)
        copies = None if self.copies is None else self.copies.among(points)

        def search(start: int) -> int:
            block = slice(start, start + QUERIES)
            own = None if self.own is None else self.own[block] - self.count
            hidden = None if copies is None else _within(copies, start)
            column, score = _search(self.queries[block], extended, own, hidden)
            better = np.flatnonzero(score > self.best[block])
            self.best[block][better] = score[better]
            self.index[block][better] = self.count + column[better]
            self.points[block][better] = points[column[better]]
            return len(column)

        with ThreadPoolExecutor(threads()) as pool:
            for done in pool.map(search, range(0, len(self.queries), QUERIES)):
                advance(done)
        self.count += len(points)


class _Copies:
    """Finds points that equal queries, by their hashes."""

    def __init__(self, queries: Rows, which: Int64[np.ndarray, " k"]):
        hashes = row_hashes(queries[which])
        order = np.argsort(hashes)
        self.queries, self.which, self.hashes = queries, which[order], hashes[order]

    def among(self, points: Rows) -> Int64[np.ndarray, "n 2"]:
        """The number of a query and that of a point, for each two that are equal."""
        hashes = row_hashes(points)
        first, end = (np.searchsorted(self.hashes, hashes, side) for side in ("left", "right"))
        point = np.repeat(np.arange(len(points)), end - first)
        query = self.which[ranges(first, end - first)]
        same = (self.queries[query] == points[point]).all(axis=1)
        return np.stack([query[same], point[same]], axis=1)


def spacings(
    rows: Rows,
    group: Int64[np.ndarray, " n"],
    of: Int64[np.ndarray, " k"],
    advance: Callable[[int], None] = lambda n: None,
    *,
    sample: int = SAMPLE,
) -> tuple[Float64[np.ndarray, " k"], float]:
    """The spacings at the rows numbered `of`, and the `SPARSE` quantile of those at all rows.

    The spacing at a row is its distance to the nearest row of another group. The quantile is
    estimated from `sample` random rows. Repeated rows count once.
    """
    points, place = distinct_rows(rows)
    drawn = np.random.default_rng(0).permutation(len(points))[:sample]
    asked, back = np.unique(np.concatenate([drawn, place[of]]), return_inverse=True)
    chosen, point_group = points[asked], group[points]
    excluded = (point_group[asked], point_group)
    distance, _ = nearest(rows[chosen], rows[points], excluded=excluded, advance=advance)
    sampled, asked_for = np.split(distance[back], [len(drawn)])
    return asked_for, float(np.quantile(sampled, SPARSE, method="higher"))


def threads() -> int:
    """The number of threads: one a core, or only one if matrix products use threads themselves."""
    return cores() if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else 1


def _extended(points: Rows) -> Float32[np.ndarray, "n more"]:
    """The points y with −|y|²/2 appended: the product with (x, 1) is larger for a nearer y."""
    squares = np.einsum("ij,ij->i", points, points)
    return np.concatenate([points, -squares[:, None] / 2], axis=1)


def _own(groups: Groups, point_groups: Groups) -> Int64[np.ndarray, "n 2"]:
    """The first point of each query's own group, and the first point after the group."""
    sides = [np.searchsorted(point_groups, groups, side) for side in ("left", "right")]
    return np.stack(sides, axis=1).astype(np.int64)


def _within(copies: Int64[np.ndarray, "n 2"], start: int) -> Int64[np.ndarray, "k 2"]:
    """The copies of the queries of a block, which are counted from its first one."""
    here = (copies[:, 0] >= start) & (copies[:, 0] < start + QUERIES)
    return copies[here] - np.array([start, 0])


def _search(
    queries: Rows,
    extended: np.ndarray,
    own: Int64[np.ndarray, "n 2"] | None,
    copies: Int64[np.ndarray, "k 2"] | None,
) -> tuple[Int64[np.ndarray, " n"], Float32[np.ndarray, " n"]]:
    """The nearest point of each query, and its score: -inf where there is none."""
    x = np.concatenate([queries, np.ones_like(queries[:, :1])], axis=1)
    best = np.full(len(x), -np.inf, np.float32)
    index = np.zeros(len(x), np.int64)
    rows = np.arange(len(x))
    for start in range(0, len(extended), POINTS):
        scores = x @ extended[start : start + POINTS].T
        if own is not None:
            _hide(scores, own - start)
        if copies is not None:
            here = (copies[:, 1] >= start) & (copies[:, 1] < start + POINTS)
            scores[copies[here, 0], copies[here, 1] - start] = -np.inf
        column = scores.argmax(axis=1)
        score = scores[rows, column]
        better = score > best
        best[better], index[better] = score[better], start + column[better]
    return index, best


def _hide(scores: np.ndarray, own: Int64[np.ndarray, "n 2"]) -> None:
    """Overwrite the scores of each query's own group, so that they are never the largest."""
    first, last = np.clip(own, 0, scores.shape[1]).T
    for row in np.flatnonzero(first < last):
        scores[row, first[row] : last[row]] = -np.inf
