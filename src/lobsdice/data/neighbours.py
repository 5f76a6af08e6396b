"""Nearest neighbours among millions of rows, by blocks of matrix products.

In the 20 to 60 dimensions of a pair (s, s') a k-d tree visits nearly every leaf, so that all
distances are computed. The neighbour is found in float32 and its distance then computed in float64:
the distance is that of a row that is nearest up to rounding.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float32, Float64, Int64

from lobsdice.data.machine import cores

#: A block of products, 4 MB, stays in the processor's cache while its smallest entries are found.
POINTS, QUERIES = 2048, 512

Rows = Float32[np.ndarray, "_ width"]
Groups = Int64[np.ndarray, " _"]
Found = tuple[Float64[np.ndarray, " queries"], Int64[np.ndarray, " queries"]]


def nearest(
    queries: Float32[np.ndarray, "queries width"],
    points: Float32[np.ndarray, "points width"],
    *,
    excluded: tuple[Int64[np.ndarray, " queries"], Int64[np.ndarray, " points"]] | None = None,
    advance: Callable[[int], None] = lambda n: None,
) -> Found:
    """The distance of each query to its nearest point, and the number of that point.

    `excluded` are the groups of the queries and of the points, those of the points in ascending
    order: points of a query's own group do not count, and where all points are of that group the
    distance is infinite. `advance` is told how many queries are done.
    """
    index = np.empty(len(queries), np.int64)
    found = np.empty(len(queries), bool)
    extended = _extended(points)

    def search(start: int) -> int:
        block = slice(start, start + QUERIES)
        own = None if excluded is None else _own(excluded[0][block], excluded[1])
        index[block], found[block] = _search(queries[block], extended, own)
        return len(index[block])

    with ThreadPoolExecutor(_threads()) as pool:
        for done in pool.map(search, range(0, len(queries), QUERIES)):
            advance(done)
    distance = np.linalg.norm(queries.astype(np.float64) - points[index], axis=1)
    return np.where(found, distance, np.inf), index


def _threads() -> int:
    """One a processor, unless each matrix product has threads too: both together only wait."""
    return cores() if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else 1


def _extended(points: Rows) -> Float32[np.ndarray, "n more"]:
    """Each point y followed by −|y|²/2, so that one product with (x, 1) ranks by distance."""
    squares = np.einsum("ij,ij->i", points, points)
    return np.concatenate([points, -squares[:, None] / 2], axis=1)


def _own(groups: Groups, point_groups: Groups) -> Int64[np.ndarray, "n 2"]:
    """From where to where the points of each query's own group lie."""
    sides = [np.searchsorted(point_groups, groups, side) for side in ("left", "right")]
    return np.stack(sides, axis=1).astype(np.int64)


def _search(
    queries: Rows, extended: np.ndarray, own: Int64[np.ndarray, "n 2"] | None
) -> tuple[Int64[np.ndarray, " n"], np.ndarray]:
    x = np.concatenate([queries, np.ones_like(queries[:, :1])], axis=1)
    best = np.full(len(x), -np.inf, np.float32)
    index = np.zeros(len(x), np.int64)
    rows = np.arange(len(x))
    for start in range(0, len(extended), POINTS):
        scores = x @ extended[start : start + POINTS].T
        if own is not None:
            _hide(scores, own - start)
        column = scores.argmax(axis=1)
        score = scores[rows, column]
        better = score > best
        best[better], index[better] = score[better], start + column[better]
    return index, best > -np.inf


def _hide(scores: np.ndarray, own: Int64[np.ndarray, "n 2"]) -> None:
    first, last = np.clip(own, 0, scores.shape[1]).T
    for row in np.flatnonzero(first < last):
        scores[row, first[row] : last[row]] = -np.inf
