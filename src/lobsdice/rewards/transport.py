"""Optimal transport of logged episodes to demonstrations (OTR: Luo et al., ICLR 2023).

An episode of T states and a demonstration are two sets of points with equal masses, 1/T each. The
cheapest way to move the one to the other, with a little entropy, says what each step costs. Points
are compared by the cosine of the states, as published.

The transport of episodes to all demonstrations is one compiled program. On processors it takes one
episode, and each core has a thread of its own. On a GPU it takes many at once, because the products
of a single one are too small to keep it busy.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int64

from lobsdice.data.machine import cores
from lobsdice.data.prepare import Data
from lobsdice.equations.rewards import TRANSPORT_DECAY
from lobsdice.equations.transport import product, transport_costs
from lobsdice.rewards.scores import Advance, Numbers, Scores, episodes_of

#: The weight of the entropy and the most iterations, as published.
EPSILON, ITERATIONS = 0.01, 100
#: The share of the mass that may still be in the wrong place. Ours: it saves a third of the work.
TOLERANCE = 0.01
#: Programs exist for 125 points times a power of two, as 1000, the usual length of an episode, and
#: for three quarters of these. A program is compiled when it is first used.
SHORT = 125
#: Entries of all cost matrices on a GPU at a time: those of 64 episodes of 1000 steps.
AT_ONCE = 64_000_000

States = Float32[np.ndarray, "_ state"]


class Points(NamedTuple):
    """States and their masses, up to a length for which there is a program."""

    states: Float32[Any, "*sets n state"]
    masses: Float32[Any, "*sets n"]


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
    demonstrations = together([shown[rows] for rows in runs(data.expert_episode, len(shown))])
    steps = np.empty(len(logged), np.float32)

    def score(group: Sequence[slice]) -> int:
        found = best_costs([logged[rows] for rows in group], demonstrations)
        for rows, costs in zip(group, found, strict=True):
            steps[rows] = costs / data.state_size
        return sum(rows.stop - rows.start for rows in group)

    episodes = runs(episodes_of(data), len(logged))
    alone = jax.default_backend() == "cpu"
    most = 1 if alone else AT_ONCE // demonstrations.masses.shape[1]
    with ThreadPoolExecutor(cores() if alone else 1) as pool:
        for done in pool.map(score, groups(episodes, most)):
            advance(done)
    return Scores(steps, steps)


def runs(episode: Int64[np.ndarray, " n"] | None, size: int) -> Iterator[slice]:
    """The rows of each episode."""
    cuts = [] if episode is None else np.flatnonzero(np.diff(episode)) + 1
    edges = [0, *cuts, size]
    yield from (slice(int(a), int(b)) for a, b in pairwise(edges))


def groups(episodes: Iterable[slice], most: int) -> Iterator[list[slice]]:
    """Episodes that share a program, with at most so many points together, or single ones."""
    waiting: dict[int, list[slice]] = {}
    for rows in episodes:
        length = padded(rows.stop - rows.start)
        group = waiting.setdefault(length, [])
        group.append(rows)
        if (len(group) + 1) * length > most:
            yield waiting.pop(length)
    yield from waiting.values()


def together(sets: Sequence[States]) -> Points:
    """Sets of states side by side, each filled up to the length that the longest one needs."""
    length = padded(max(map(len, sets)))
    filled = [points(states, length) for states in sets]
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *filled)


def points(states: States, length: int) -> Points:
    """States of equal masses, and others without mass up to the length."""
    count = len(states)
    masses = np.full(count, 1 / count, np.float32)
    more = length - count
    return Points(np.pad(states, ((0, more), (0, 0))), np.pad(masses, (0, more)))


def padded(count: int) -> int:
    """The next length that has a program."""
    doubled = SHORT << ((count - 1) // SHORT).bit_length()
    less = doubled * 3 // 4
    return less if count <= less else doubled


def best_costs(episodes: Sequence[States], demonstrations: Points) -> list[Numbers]:
    """T times the cost of each of T steps, for the demonstration that its episode resembles most.

    The episodes share a program.
    """
    found = np.asarray(_costs(together(episodes), demonstrations))
    return [_best(costs, *states.shape) for costs, states in zip(found, episodes, strict=True)]


def _best(found: Float32[np.ndarray, "demonstrations padded"], count: int, size: int) -> Numbers:
    costs = count * found[:, :count]
    return costs[np.exp(-TRANSPORT_DECAY * costs / size).sum(axis=1).argmax()]


@jax.jit
def _costs(episodes: Points, demonstrations: Points) -> Float32[Array, "episodes demonstrations n"]:
    """The cost of each step for each demonstration, one after the other in the same memory."""

    def cost(episode: Points, shown: Points) -> Float32[Array, " n"]:
        cosines = product(episode.states, shown.states.T)
        return transport_costs(
            jnp.maximum(1 - cosines, 0),
            episode.masses,
            shown.masses,
            epsilon=EPSILON,
            iterations=ITERATIONS,
            tolerance=TOLERANCE,
        )

    if len(episodes.masses) == 1:  # plain products are faster than batches of one
        one = jax.tree.map(lambda x: x[0], episodes)
        return jax.lax.map(partial(cost, one), demonstrations)[None]
    every = jax.vmap(cost, in_axes=(0, None))
    return jnp.swapaxes(jax.lax.map(partial(every, episodes), demonstrations), 0, 1)
