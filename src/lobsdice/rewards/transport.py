"""Optimal transport of logged episodes to demonstrations (OTR: Luo et al., ICLR 2023).

An episode of T states and a demonstration are two sets of points with equal masses, 1/T each. The
cheapest way to move the one to the other, with a little entropy, says what each step costs. Points
are compared by the cosine of the states, as published.

Sinkhorn's iteration runs on the kernel exp(-C/ε) itself, in blocks of rows that stay in the cache:
ten times as fast as on logarithms. The potentials are moved into the kernel whenever they grow, so
that nothing overflows. The matrix of costs is never stored: C_ij = 1 - s_i·e_j is a product.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from jaxtyping import Float32, Int64

from lobsdice.data.neighbours import threads
from lobsdice.data.prepare import Data
from lobsdice.equations.rewards import TRANSPORT_DECAY
from lobsdice.rewards.scores import Advance, Numbers, Scores, episodes_of

#: The weight of the entropy and the most iterations, as published.
EPSILON, ITERATIONS = 0.01, 100
#: The share of the mass that may still be in the wrong place. Ours: it halves the work.
TOLERANCE = 0.01
#: Iterations between two looks at that share, and rows of the kernel in one product.
CHECK, BLOCK = 10, 256
#: Factors beyond this are moved into the kernel.
LARGEST = 1e12

Kernel = Float32[np.ndarray, "n m"]
States = Float32[np.ndarray, "_ state"]
Rows = Float32[np.ndarray, " n"]
Columns = Float32[np.ndarray, " m"]


def score_transport(data: Data, *, raw: bool, advance: Advance = lambda n: None) -> Scores:
    """The cost of each logged step, times the length of its episode, by the number of features.

    Of several demonstrations the one counts whose rewards have the largest sum. With `raw` states
    are in the units of the files. What follows an end costs what the last step costs.
    """
    scale, mean = (data.normaliser.scale, data.normaliser.mean) if raw else (1.0, 0.0)

    def directions(s: np.ndarray) -> States:
        s = (s * scale + mean).astype(np.float32)
        return s / np.maximum(np.linalg.norm(s, axis=1, keepdims=True), 1e-12)

    logged, shown = directions(data.offline.s), directions(data.expert.s)
    demonstrations = [shown[rows] for rows in runs(data.expert_episode, len(shown))]
    steps = np.empty(len(logged), np.float32)

    def score(rows: slice) -> int:
        steps[rows] = best_costs(logged[rows], demonstrations) / data.state_size
        return rows.stop - rows.start

    with ThreadPoolExecutor(threads()) as pool:
        for done in pool.map(score, runs(episodes_of(data), len(logged))):
            advance(done)
    return Scores(steps, steps)


def runs(episode: Int64[np.ndarray, " n"] | None, size: int) -> Iterator[slice]:
    """The rows of each episode."""
    cuts = [] if episode is None else np.flatnonzero(np.diff(episode)) + 1
    edges = [0, *cuts, size]
    yield from (slice(int(a), int(b)) for a, b in pairwise(edges))


def best_costs(episode: States, demonstrations: list[States]) -> Numbers:
    """T times the cost of each of T steps, for the demonstration that it resembles most."""
    found = [len(episode) * transport_costs(episode, shown) for shown in demonstrations]
    size = episode.shape[1]
    return max(found, key=lambda costs: np.exp(-TRANSPORT_DECAY * costs / size).sum())


def transport_costs(
    x: States,
    y: States,
    *,
    epsilon: float = EPSILON,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Rows:
    """The cost of each row of x in the cheapest transport to y between equal masses: Σ_j P_ij C_ij.

    The costs are C_ij = 1 - x_i·y_j.
    """
    near = (x / np.float32(epsilon)).astype(np.float32)
    a, b = _largest_entries(near, y)
    kernel = np.empty((len(x), len(y)), np.float32)
    _fill(kernel, near, y, a, b)
    u, v = np.ones_like(a), np.ones_like(b)
    for i in range(iterations):
        u, v, error = _iterate(kernel, u, v, measure=i % CHECK == CHECK - 1)
        if error < tolerance:
            break
        if max(u.max(), v.max(), 1 / u.min(), 1 / v.min()) > LARGEST:
            a, b = a + np.log(u), b + np.log(v)
            _fill(kernel, near, y, a, b)
            u, v = np.ones_like(a), np.ones_like(b)
    # Σ_j P_ij (1 - x_i·y_j), without the matrix of costs.
    moved = kernel @ np.column_stack([v[:, None] * y, v])
    return u * np.maximum(moved[:, -1] - np.einsum("ij,ij->i", x, moved[:, :-1]), 0)


def _largest_entries(near: States, y: States) -> tuple[Rows, Columns]:
    """The a and b with which each row and each column of the kernel has an entry 1."""
    a, b = np.empty(len(near), np.float32), np.full(len(y), -np.inf, np.float32)
    for rows in _blocks(len(near)):
        exponent = near[rows] @ y.T
        a[rows] = -exponent.max(axis=1)
        exponent += a[rows, None]
        np.maximum(b, exponent.max(axis=0), out=b)
    return a, -b


def _fill(kernel: Kernel, near: States, y: States, a: Rows, b: Columns) -> None:
    """Write exp(x_i·y_j/ε + a_i + b_j), that is exp(-C_ij/ε) up to factors of rows and columns."""
    left = np.column_stack([near, a, np.ones_like(a)])
    right = np.column_stack([y, np.ones_like(b), b]).T
    for rows in _blocks(len(kernel)):
        # In place: fresh memory for so many numbers costs as much as they do.
        exponent = np.matmul(left[rows], right, out=kernel[rows])
        np.exp(exponent, out=exponent)


def _iterate(kernel: Kernel, u: Rows, v: Columns, *, measure: bool) -> tuple[Rows, Columns, float]:
    """The factors after an iteration and, with `measure`, the mass in the wrong place before it."""
    count, columns = kernel.shape
    new, column_sums, error = np.empty_like(u), np.zeros_like(v), 0.0
    for rows in _blocks(count):
        block = kernel[rows]
        row_sums = block @ v
        if measure:
            error += float(np.abs(u[rows] * row_sums - 1 / count).sum())
        new[rows] = np.float32(1 / count) / row_sums
        column_sums += new[rows] @ block
    return new, np.float32(1 / columns) / column_sums, error if measure else np.inf


def _blocks(size: int) -> Iterator[slice]:
    yield from (slice(start, start + BLOCK) for start in range(0, size, BLOCK))
