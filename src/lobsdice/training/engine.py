"""The one training loop: gradient, Adam, scan over steps, vmap over the runs of a fleet.

The runs of a fleet share the shapes of their networks. They may differ in the seed, in float
hyperparameters and in data. All data lies in one pool of arrays (`training.draws`), and each run
draws from its own slices of the pool. A chunk of steps is one compiled program.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Algorithm, Metrics, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch
from lobsdice.equations.terminal import Terminal
from lobsdice.training.draws import (
    Pool,
    Slices,
    draw_batch,
    end_mass,
    held_out_count,
)
from lobsdice.training.weighted import DRAWN, draw_by_weight

ADAM = optax.scale_by_adam()
#: Names of quantities that must stay finite, besides the metrics of the algorithm.
GRADIENT, WEIGHTS = "gradient", "weights"
#: Held-out rows with which networks are refreshed.
ROWS_APART = 2**12
#: No step has this number.
LATER = 2**32 - 1


@hyperparameters
class Options:
    """Settings of training, whatever the algorithm."""

    steps: int = at_least(1, default=1_000_000)
    """Gradient steps."""
    batch_size: int = at_least(1, default=512)
    """Rows of each part of the data in a step."""
    average: float = within(0, 1, default=0.999)
    """Decay of the running average of the policy's weights. The averaged policy is kept."""
    cooldown: float = within(0, 1, default=0.0)
    """Last share of the steps (0 to 1) in which the learning rates fall linearly to zero."""
    hold_out: bool = True
    """Keep one row in sixteen out of training, to measure on it how well training goes."""
    terminal: Terminal = "restart"
    """The sequel of an episode that terminated: a new start (restart), the same state for ever
    (stay), or nothing (keep). Truncated episodes go on unseen."""


@dataclass(frozen=True)
class Member:
    """The settings of one run of a fleet."""

    algorithm: Algorithm
    seed: int = 0
    data: int = 0
    """The number of its dataset in the fleet."""
    options: Options = field(default_factory=Options)


class State(NamedTuple):
    """All that a run carries from step to step. Random numbers depend on seed and step alone."""

    nets: Any
    optimiser: Any
    average: Any
    failed_at: Int[Array, "..."]
    """The first step with a number that is not finite; -1 if there is none."""
    failed_in: Int[Array, "..."]
    """The quantities that were not finite in that step: bit i stands for entry i of `watched`."""
    drawn: Int[Array, "..."] | None = None
    """Offline rows to clone, drawn by weight some steps ago; None if the algorithm draws none."""


def start(algorithm: Algorithm, key: Key[Array, ""], state_size: int, space) -> State:
    """The state of a run before its first step."""
    nets = algorithm.init(key, state_size, space)
    drawn = jnp.zeros(DRAWN, jnp.int32) if algorithm.draws else None
    return State(nets, ADAM.init(nets), nets.policy, jnp.int32(-1), jnp.int32(0), drawn)


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
    """Take one gradient step of one run; penalties count `penalised` times.

    If numbers stop being finite, the step is taken all the same, and the state says so.
    """
    loss = partial(algorithm.loss, penalised=penalised)
    gradients, metrics = jax.grad(loss, has_aux=True)(state.nets, batch, key)
    failures = _not_finite(gradients, metrics)
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
    return _note_failure(moved, failures, now), metrics


def _note_failure(state: State, failures: Int[Array, ""], now: Int[Array, ""]) -> State:
    """The state with the failures of this step, if they are the run's first."""
    first = (state.failed_at < 0) & (failures != 0)
    return state._replace(
        failed_at=jnp.where(first, now, state.failed_at),
        failed_in=jnp.where(first, failures, state.failed_in),
    )


def _not_finite(gradients: Any, metrics: Metrics) -> Int[Array, ""]:
    """A bit for each of `watched` that is not finite; 0 if all are."""
    # A sum carries NaN and infinity along.
    sums = metrics | {GRADIENT: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(gradients))}
    finite = [jnp.isfinite(sums[name]) for name in watched(metrics) if name in sums]
    return jnp.sum(jnp.where(jnp.stack(finite), 0, 2 ** np.arange(len(finite))), dtype=jnp.int32)


def watched(metrics: Mapping[str, Any]) -> list[str]:
    """The quantities that must stay finite; bit i of `failed_in` stands for entry i."""
    return [*sorted(metrics), GRADIENT, WEIGHTS]


def _with_weights_watched(state: State, metrics: Metrics, last: Int[Array, ""]) -> State:
    """The state after a chunk, marked as failed in step `last` if weights are not finite."""
    # Within the chunk such weights show in the losses of the next step.
    leaves = jax.tree.leaves((state.nets, state.average))
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    bit = 2 ** watched(metrics).index(WEIGHTS)
    return _note_failure(state, jnp.where(finite, 0, bit), last)


def _unless_failed(old: State, new: State) -> State:
    """`new`, but with the networks of `old` if the run has failed."""
    nets, optimiser, average = jax.tree.map(
        lambda o, n: jnp.where(new.failed_at < 0, n, o), old[:3], new[:3]
    )
    return new._replace(nets=nets, optimiser=optimiser, average=average)


def _cooling(options: Options, now: Int[Array, ""]) -> Float[Array, ""]:
    left = (options.steps - now) / options.steps
    return jnp.minimum(1.0, left / jnp.maximum(options.cooldown, 1e-9))


@partial(jax.jit, static_argnames=("steps", "streams"))
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
    streams: bool = False,
) -> tuple[State, Metrics]:
    """Take `steps` gradient steps of every run in one compiled program; return mean metrics too.

    Steps come in whole blocks of `penalty_every`, or in one that is shorter. The first step of a
    block has penalties, which count for the whole block, and its metrics are logged. A run that
    fails goes back to the start of the chunk: to go back a step would cost a copy in each step.
    With `streams` the pool may be another one than that of the chunk before.
    """

    def one_run(algorithm, options, begun, slices, key):
        run = _Run(algorithm, options, pool, slices, key, first if streams else None)
        state, metrics = run.blocks(begun, first, steps=steps)
        state = _with_weights_watched(state, metrics, first + steps - 1)
        return _unless_failed(begun, state), jax.tree.map(jnp.mean, metrics)

    return _over_runs(one_run, algorithms, options, states, slices, keys)


class _Run(NamedTuple):
    """One run in a compiled chunk: all that its steps depend on, besides its state."""

    algorithm: Algorithm
    options: Options
    pool: Pool
    slices: Slices
    key: Key[Array, ""]
    changed: Int[Array, ""] | None
    """The step before which the pool has changed: drawn rows are others now. None if it stays."""

    def blocks(self, state: State, first: Int[Array, ""], *, steps: int) -> tuple[State, Metrics]:
        """Take steps in blocks of `penalty_every`, or in one shorter block.

        Return the state, and the metrics of each block. Blocks of two lengths would be two copies
        of everything in one program, and twice the time to compile it.
        """
        every = self.algorithm.penalty_every
        assert steps < every or steps % every == 0
        if steps <= every:
            state, metrics = self.block(state, first, size=steps)
            return state, jax.tree.map(lambda x: x[None], metrics)
        starts = first + every * jnp.arange(steps // every, dtype=jnp.int32)
        return jax.lax.scan(partial(self.block, size=every), state, starts)

    def block(self, state: State, now: Int[Array, ""], *, size: int) -> tuple[State, Metrics]:
        """Take a step with penalties, and `size - 1` steps without."""

        def plain(state, now):
            return self.advance(state, now, penalised=0)[0], None

        state, metrics = self.advance(self.begin_block(state, now), now, penalised=size)
        if size > 1:  # a scan over nothing would be compiled all the same
            others = now + 1 + jnp.arange(size - 1, dtype=jnp.int32)
            state, _ = jax.lax.scan(plain, state, others)
        return state, metrics

    def advance(
        self, state: State, now: Int[Array, ""], *, penalised: int
    ) -> tuple[State, Metrics]:
        """Draw a batch and take a step."""
        k_batch, k_loss = jax.random.split(jax.random.fold_in(self.key, now))
        batch = self.draw(k_batch, self.options.batch_size)
        if state.drawn is not None:
            cloned = _some(k_batch, state.drawn, self.options.batch_size)
            batch = batch._replace(cloned=self.pool.offline.take(cloned))
        return step(self.algorithm, self.options, state, batch, k_loss, now, penalised=penalised)

    def begin_block(self, state: State, now: Int[Array, ""]) -> State:
        """The state with refreshed networks and other drawn rows, if these are due."""
        if not self.algorithm.refresh_every:
            return state
        due = now % self.algorithm.refresh_every < self.algorithm.penalty_every
        if self.changed is not None:
            due |= now == self.changed
        return jax.lax.cond(due, self.refresh, lambda state, _: state, state, now)

    def refresh(self, state: State, now: Int[Array, ""]) -> State:
        # Other random numbers than those of the steps, which do not depend on this.
        later = jax.random.fold_in(self.key, LATER)
        k_held, k_refresh, k_rows = jax.random.split(jax.random.fold_in(later, now), 3)
        nets, hold_out = state.nets, self.options.hold_out
        if hold_out:
            held = self.draw(k_held, ROWS_APART, apart=True)
            fresh = self.algorithm.refresh(nets, held, k_refresh)
            apart = held_out_count(self.slices.steps)[1] > 0
            nets = jax.tree.map(partial(jnp.where, apart), fresh, nets)
        state = state._replace(nets=nets)
        if not self.algorithm.draws:
            return state
        drawn = draw_by_weight(
            k_rows,
            self.pool,
            self.slices,
            partial(self.algorithm.cloning_weights, nets),
            hold_out=hold_out,
            stretch=self.algorithm.stretch,
            sharpened=self.algorithm.sharpened,
        )
        return state._replace(drawn=drawn)

    def draw(self, key: Key[Array, ""], n: int, *, apart: bool = False) -> Batch:
        """Draw `n` rows of each part of the run's data; with `apart`, held-out rows."""
        terminal = self.options.terminal
        return draw_batch(
            key,
            self.pool,
            self.slices,
            n,
            end_mass=end_mass(self.algorithm, terminal),
            restart=terminal == "restart",
            hold_out=self.options.hold_out,
            apart=apart,
            ahead=terminal if self.algorithm.looks_ahead else None,
        )


def _some(key: Key[Array, ""], drawn: Int[Array, " drawn"], n: int) -> Int[Array, " n"]:
    """The numbers of `n` of the rows that were drawn by weight."""
    return drawn[jax.random.randint(jax.random.fold_in(key, 1), (n,), 0, len(drawn))]


def _over_runs(one_run: Callable, *arguments: Any) -> Any:
    """Apply vmap, except for a fleet of one: plain products are faster than batches of one."""
    runs = len(arguments[-1])
    if runs > 1:
        return jax.vmap(one_run)(*arguments)
    result = one_run(*jax.tree.map(lambda x: x[0], arguments))
    return jax.tree.map(lambda x: x[None], result)
