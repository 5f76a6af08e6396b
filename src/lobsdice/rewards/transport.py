"""Optimal transport of logged episodes to demonstrations (OTR: Luo et al., ICLR 2023).

An episode of T states and a demonstration are two sets of points with equal masses, 1/T each. The
cheapest way to move the one to the other, with a little entropy, says what each step costs. Points
are compared by the cosine of the states, as published.

Sinkhorn's iteration runs on the kernel exp(-C/ε) itself, in blocks of rows that stay in the cache:
ten times as fast as on logarithms. The potentials are moved into the kernel whenever they grow, so
that nothing overflows.
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

Costs = Float32[np.ndarray, "n m"]
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
    found = [len(episode) * transport_costs(_cosine_costs(episode, x)) for x in demonstrations]
    size = episode.shape[1]
    return max(found, key=lambda costs: np.exp(-TRANSPORT_DECAY * costs / size).sum())


def _cosine_costs(episode: States, shown: States) -> Costs:
    """1 - cos(s_i, e_j), for states of length 1."""
    cosine = episode @ shown.T
    return np.subtract(1, cosine, out=cosine)


def transport_costs(
    cost: Costs,
    *,
    epsilon: float = EPSILON,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Rows:
    """The cost of each row in the cheapest transport between equal masses: Σ_j P_ij C_ij."""
    # Each row and each column has then an entry 1 in the kernel, wherever the points lie.
    f = cost.min(axis=1)
    kernel = cost - f[:, None]
    g = kernel.min(axis=0)
    np.subtract(g, kernel, out=kernel)
    kernel = _exponential(kernel, epsilon)
    u, v = np.ones_like(f), np.ones_like(g)
    for i in range(iterations):
        u, v, error = _iterate(kernel, u, v, measure=i % CHECK == CHECK - 1)
        if error < tolerance:
            break
        if max(u.max(), v.max(), 1 / u.min(), 1 / v.min()) > LARGEST:
            f, g = f + epsilon * np.log(u), g + epsilon * np.log(v)
            kernel, u, v = _kernel(cost, f, g, epsilon), np.ones_like(f), np.ones_like(g)
    kernel *= cost
    return u * (kernel @ v)


def _kernel(cost: Costs, f: Rows, g: Columns, epsilon: float) -> Costs:
    """exp((f_i + g_j - C_ij) / ε)."""
    kernel = f[:, None] - cost
    kernel += g
    return _exponential(kernel, epsilon)


def _exponential(exponent: Costs, epsilon: float) -> Costs:
    """exp(x/ε), in the place of x: fresh memory for a million numbers costs as much as they do."""
    exponent *= np.float32(1 / epsilon)
    return np.exp(exponent, out=exponent)


def _iterate(kernel: Costs, u: Rows, v: Columns, *, measure: bool) -> tuple[Rows, Columns, float]:
    """The factors after an iteration and, with `measure`, the mass in the wrong place before it."""
    rows, columns = kernel.shape
    new, column_sums, error = np.empty_like(u), np.zeros_like(v), 0.0
    for start in range(0, rows, BLOCK):
        block = kernel[start : start + BLOCK]
        row_sums = block @ v
        here = np.float32(1 / rows) / row_sums
        if measure:
            error += float(np.abs(u[start : start + BLOCK] * row_sums - 1 / rows).sum())
        new[start : start + BLOCK] = here
        column_sums += here @ block
    return new, np.float32(1 / columns) / column_sums, error if measure else np.inf
