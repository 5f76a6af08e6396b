"""The one training loop: gradient, Adam, scan over steps, vmap over the runs of a fleet.

A fleet is a batch of runs that share the shapes of their networks and differ in seed, in float
hyperparameters and in data: all data lies in one set of arrays, of which each run draws from its
own slices. Python wakes only between chunks of steps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Int64, Key

from lobsdice.algorithms.base import Algorithm, Batch, Labelled, Metrics, hyperparameters
from lobsdice.data.prepare import Data

ADAM = optax.scale_by_adam()
GRADIENT, WEIGHTS = "gradient", "weights"
#: Each period of so many rows of the expert's or the offline data ends in a block of rows that are
#: held out. Blocks, because the steps just before and after one are nearly the same as it.
PERIOD, BLOCK = 512, 32
LEARNED = PERIOD - BLOCK
#: Of which parts of the pool rows are held out: not of initial states, nor of labelled ones.
DIVIDED = np.array([0, 1, 1, 0], np.int32)
#: Initial states enter losses as a mean with the small factor 1-γ: a few of them are enough.
INITIAL_SHARE = 4


@hyperparameters
class Options:
    """How to train, whatever the algorithm."""

    steps: int = 1_000_000
    """Gradient steps."""
    batch_size: int = 512
    """Rows of each part of the data in a step."""
    average: float = 0.999
    """Decay of the running average of the policy's weights; the averaged policy is what is kept."""
    cooldown: float = 0.0
    """Last part of the steps (0 to 1) in which the learning rates fall linearly to zero."""
    hold_out: bool = True
    """Whether one row in sixteen is kept out of training, to tell by it how well that went."""


@dataclass(frozen=True)
class Member:
    """One run of a fleet."""

    algorithm: Algorithm
    seed: int = 0
    data: int = 0
    """Which of the fleet's data sets it learns from."""
    options: Options = field(default_factory=Options)


class Pool(NamedTuple):
    """All data of a fleet, set after set, on the device."""

    init: Any
    expert: Any
    offline: Any
    labelled: Any


class Slices(NamedTuple):
    """Where a run's data begins in each part of the pool, and how many rows it has there."""

    start: Int[Array, "... 4"]
    size: Int[Array, "... 4"]


class State(NamedTuple):
    """All that a run carries from step to step; its randomness depends on seed and step alone."""

    nets: Any
    optimiser: Any
    average: Any
    failed_at: Int[Array, "..."]
    """The step in which a number stopped being finite, -1 while all is well."""
    failed_in: Int[Array, "..."]
    """What was not finite then: bit i stands for entry i of `suspects`."""


def pack(datas: Sequence[Data]) -> tuple[Pool, Slices]:
    """Data sets laid one after the other, and the slices of each."""
    parts = [
        Pool(d.init, tuple(d.expert), tuple(d.offline), d.labelled and tuple(d.labelled))
        for d in datas
    ]
    pool = jax.tree.map(lambda *xs: jnp.asarray(np.concatenate(xs)), *parts)
    size = np.array([[_rows(part) for part in parts_of_one] for parts_of_one in parts], np.int32)
    start = np.cumsum(size, axis=0, dtype=np.int32) - size
    return pool, Slices(jnp.asarray(start), jnp.asarray(size))


def _rows(part: Any) -> int:
    return len(jax.tree.leaves(part)[0]) if part is not None else 0


def draw(
    key: Key[Array, ""], pool: Pool, slices: Slices, n: int, *, hold_out: bool = False
) -> Batch:
    """`n` rows of each part of a run's data, uniformly and with replacement; of `init` fewer.

    With `hold_out` these are rows to learn from; see `held_out_rows`.
    """
    divided = DIVIDED if hold_out else 0 * DIVIDED
    size = slices.size - divided * held_out_count(slices.size)
    number = jax.random.randint(key, (4, n), 0, jnp.maximum(size[:, None], 1))
    number = number + divided[:, None] * (number // LEARNED * BLOCK)
    rows = number + slices.start[:, None]
    few = -(-n // INITIAL_SHARE)
    which = [rows[0, :few], *rows[1:]]
    take = [jax.tree.map(lambda x, i=i: x[i], part) for part, i in zip(pool, which, strict=True)]
    init, expert, offline, labelled = take
    return Batch(
        init,
        *expert,
        *offline,
        labelled=None if labelled is None else Labelled(*labelled),
    )


def held_out_count(size: Int[Array, " parts"]) -> Int[Array, " parts"]:
    """How many of so many rows are held out."""
    return size // PERIOD * BLOCK + jnp.maximum(size % PERIOD - LEARNED, 0)


def held_out_rows(size: int) -> Int64[np.ndarray, " n"]:
    """Which of so many rows are never learned from; all, where there are too few to spare any."""
    rows = np.arange(size)
    return rows[rows % PERIOD >= LEARNED] if size > LEARNED else rows


def start(algorithm: Algorithm, key: Key[Array, ""], state_size: int, space) -> State:
    """A run's state before its first step."""
    nets = algorithm.init(key, state_size, space)
    none = jnp.int32(-1)
    return State(nets, ADAM.init(nets), nets.policy, none, jnp.int32(0))


def step(
    algorithm: Algorithm,
    options: Options,
    state: State,
    batch: Batch,
    key: Key[Array, ""],
    now: Int[Array, ""],
    *,
    penalised: int,
) -> tuple[State, Metrics]:
    """One gradient step of one run, whatever comes of it.

    Its penalties stand for those of `penalised` steps; 0: it has none.
    """
    loss = partial(algorithm.loss, penalised=penalised)
    gradients, metrics = jax.grad(loss, has_aux=True)(state.nets, batch, key)
    trouble = _trouble(gradients, metrics)
    updates, optimiser = ADAM.update(gradients, state.optimiser)
    cooling = _cooling(options, now)
    nets = jax.tree.map(
        lambda rate, net, update: jax.tree.map(lambda x, u: x - cooling * rate * u, net, update),
        algorithm.rates(now),
        state.nets,
        updates,
    )
    nets = algorithm.after_step(nets)
    # Early on the average forgets fast, so that it does not remember the initial weights.
    decay = jnp.minimum(options.average, (1 + now) / (10 + now))
    average = jax.tree.map(lambda old, x: x + decay * (old - x), state.average, nets.policy)
    moved = state._replace(nets=nets, optimiser=optimiser, average=average)
    return _noted(moved, trouble, now), metrics


def _noted(state: State, trouble: Int[Array, ""], now: Int[Array, ""]) -> State:
    """`state` with its trouble in this step written down, if it is the run's first."""
    first = (state.failed_at < 0) & (trouble != 0)
    return state._replace(
        failed_at=jnp.where(first, now, state.failed_at),
        failed_in=jnp.where(first, trouble, state.failed_in),
    )


def _trouble(gradients: Any, metrics: Metrics) -> Int[Array, ""]:
    """0 if all numbers are finite; otherwise a bit for each of `suspects` that is not."""
    # A sum carries NaN and infinity along.
    sums = metrics | {GRADIENT: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(gradients))}
    finite = [jnp.isfinite(sums[name]) for name in suspects(metrics) if name in sums]
    return jnp.sum(jnp.where(jnp.stack(finite), 0, 2 ** np.arange(len(finite))), dtype=jnp.int32)


def suspects(metrics: Mapping[str, Any]) -> list[str]:
    """What is watched for numbers that are not finite; bit i of `failed_in` stands for entry i."""
    return [*sorted(metrics), GRADIENT, WEIGHTS]


def _with_weights_watched(state: State, metrics: Metrics, last: Int[Array, ""]) -> State:
    """`state`, failed in its last step if that left weights that are not finite."""
    # In any other step the next one's losses tell; here none is left, and once a chunk is cheap.
    leaves = jax.tree.leaves((state.nets, state.average))
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    bit = 2 ** suspects(metrics).index(WEIGHTS)
    return _noted(state, jnp.where(finite, 0, bit), last)


def _unless_failed(old: State, new: State) -> State:
    """`new`, but with the networks of `old` if the run has failed on the way or before."""
    nets, optimiser, average = jax.tree.map(
        lambda o, n: jnp.where(new.failed_at < 0, n, o), old[:3], new[:3]
    )
    return new._replace(nets=nets, optimiser=optimiser, average=average)


def _cooling(options: Options, now: Int[Array, ""]) -> Float[Array, ""]:
    left = (options.steps - now) / options.steps
    return jnp.minimum(1.0, left / jnp.maximum(options.cooldown, 1e-9))


@partial(jax.jit, static_argnames=("steps",))
def run_chunk(
    algorithms: Algorithm,
    options: Options,
    states: State,
    pool: Pool,
    slices: Slices,
    keys: Key[Array, " runs"],
    first: Int[Array, ""],
    *,
    steps: int,
) -> tuple[State, Metrics]:
    """`steps` gradient steps of every run, as one compiled program, and the means of the metrics.

    The first step of each block of `penalty_every` is penalised for all of it, also of a shorter
    block at the end; metrics are taken there. A run that fails ends where it began: looking back
    only here spares each step a copy of the state.
    """
    every = algorithms.penalty_every

    def one_run(algorithm, options, begun, slices, key):
        def advance(state, now, *, penalised):
            k_batch, k_loss = jax.random.split(jax.random.fold_in(key, now))
            batch = draw(k_batch, pool, slices, options.batch_size, hold_out=options.hold_out)
            return step(algorithm, options, state, batch, k_loss, now, penalised=penalised)

        def plain(state, now):
            return advance(state, now, penalised=0)[0], None

        def block(state, now, *, size):
            state, metrics = advance(state, now, penalised=size)
            if size > 1:  # a scan over nothing would be compiled all the same
                others = now + 1 + jnp.arange(size - 1, dtype=jnp.int32)
                state, _ = jax.lax.scan(plain, state, others)
            return state, metrics

        starts = first + every * jnp.arange(steps // every, dtype=jnp.int32)
        state, metrics = jax.lax.scan(partial(block, size=every), begun, starts)
        if rest := steps % every:
            state, last = block(state, first + steps - rest, size=rest)
            metrics = jax.tree.map(lambda x, y: jnp.append(x, y), metrics, last)
        state = _with_weights_watched(state, metrics, first + steps - 1)
        return _unless_failed(begun, state), jax.tree.map(jnp.mean, metrics)

    return _over_runs(one_run, algorithms, options, states, slices, keys)


def _over_runs(one_run: Callable, *arguments: Any) -> Any:
    """vmap, except for a fleet of one: plain matrix products are faster than batches of one."""
    runs = len(arguments[-1])
    if runs > 1:
        return jax.vmap(one_run)(*arguments)
    result = one_run(*jax.tree.map(lambda x: x[0], arguments))
    return jax.tree.map(lambda x: x[None], result)
