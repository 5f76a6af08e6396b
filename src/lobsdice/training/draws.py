"""The pool of all rows of a fleet, and the draw of batches from it.

A part of the data (demonstrations, logs, labelled demonstrations) has two kinds of rows: recorded
steps and, after them, one row for the end of each episode that terminated. The row of an end has no
action. The option `terminal` says what follows there, and so how often it is drawn. For the flow of
the process that goes on after an end, and with recorded steps drawn uniformly:
    restart     once an episode; the next state is drawn from the initial states
    stay        γ/(1-γ) times an episode, as often as a discounted process is still there
    keep        never: nothing follows, and the flow constraint cannot hold at final states
docs/mathematics/ends.md derives this.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int64, Key

from lobsdice.algorithms.base import Algorithm
from lobsdice.algorithms.batch import Batch
from lobsdice.data.prepare import Data, Ends, Observations, Transitions
from lobsdice.equations.duals import Number, Values
from lobsdice.tabular.ends import Terminal

#: Expert and offline rows are held out in blocks: the last BLOCK rows of each PERIOD. Single rows
#: would not do, because neighbouring steps are nearly the same.
PERIOD, BLOCK = 512, 32
LEARNED = PERIOD - BLOCK
#: 1 for the parts of a batch that have held-out rows. Initial states and labelled rows have none.
DIVIDED = np.array([0, 1, 1, 0], np.int32)
#: A batch has this many times fewer initial states than other rows. They enter losses as a mean
#: with the small factor 1-γ, so a few are enough.
INITIAL_SHARE = 4
#: Rows that are weighed for a draw by weights, rows that are drawn, and rows in one pass.
SAMPLE, DRAWN, PIECE = 2**15, 2**12, 2**13


class Slices(NamedTuple):
    """The place of a run's rows in each part of the pool. Rows of ends follow those of steps."""

    start: Int[Array, "... 4"]
    """The first row."""
    steps: Int[Array, "... 4"]
    """The number of recorded steps (of `init`: of states)."""
    ends: Int[Array, "... 4"]
    """The number of ends."""
    weight: Float[Array, "... 4"]
    """The number of ends for each that is here, if steps were left out: 1/n of every n-th step."""


def pack(datas: Sequence[Data]) -> tuple[Batch, Slices]:
    """The pool with the rows of all datasets one after the other, and the slices of each."""
    parts = [with_ends(data) for data in datas]
    pool = jax.tree.map(lambda *xs: jnp.asarray(np.concatenate(xs)), *parts)
    steps, ends, weight = np.moveaxis(np.array([end_counts(data) for data in datas]), -1, 0)
    size = steps + ends
    start = np.cumsum(size, axis=0) - size
    start, steps, ends = (jnp.asarray(x, jnp.int32) for x in (start, steps, ends))
    return pool, Slices(start, steps, ends, jnp.asarray(weight, jnp.float32))


def end_counts(data: Data) -> list[tuple[int, int, float]]:
    """For each part of a batch: the numbers of steps and of ends, and the weight of an end."""
    ends = data.ends or _no_ends(data)
    kept = 1 / data.every
    return [
        (len(data.init), 0, 1.0),
        (len(data.expert.s), len(ends.expert), kept),
        (len(data.offline.s), len(ends.offline), 1.0),
        (_rows(data.labelled), _rows(ends.labelled), kept),
    ]


def with_ends(data: Data) -> Batch:
    """All rows of a dataset: in each part the recorded steps, then a row for each end."""
    ends = data.ends or _no_ends(data)

    def offline(rows: Transitions, final: np.ndarray) -> Transitions:
        # A missing action is NaN or -1, see `algorithms.networks`.
        fill = np.nan if np.issubdtype(rows.a.dtype, np.floating) else -1
        none = np.full((len(final), *rows.a.shape[1:]), fill, rows.a.dtype)
        return Transitions(*map(_append, rows, (final, none, final)))

    expert = Observations(*(_append(x, ends.expert) for x in data.expert))
    labelled = None
    if data.labelled is not None:
        final = data.init[:0] if ends.labelled is None else ends.labelled
        labelled = offline(data.labelled, final)
    return Batch(data.init, expert, offline(data.offline, ends.offline), labelled)


def draw_batch(
    key: Key[Array, ""],
    pool: Batch,
    slices: Slices,
    n: int,
    *,
    end_mass: Number = 0.0,
    restart: bool = False,
    hold_out: bool = False,
    apart: bool = False,
) -> Batch:
    """Draw `n` rows of each part of a run's data, with replacement; fewer of `init`.

    The row of an end is drawn `end_mass` times as often as that of a step. It leads to a random
    initial state with `restart`, else to itself. With `hold_out` held-out rows are never drawn,
    and with `apart` no others, where there are some.
    """
    divided = DIVIDED if hold_out else 0 * DIVIDED
    k_step, k_ended, k_end, k_start = jax.random.split(key, 4)
    share = end_share(slices.steps, slices.ends, end_mass * slices.weight)
    ended = jax.random.bernoulli(k_ended, share[:, None], (4, n))
    number = jnp.where(
        ended,
        slices.steps[:, None] + _numbers(k_end, slices.ends, divided, n, apart),
        _numbers(k_step, slices.steps, divided, n, apart),
    )
    rows = number + slices.start[:, None]
    few = -(-n // INITIAL_SHARE)
    which = [rows[0, :few], *rows[1:]]
    take = [
        jax.tree.map(lambda x, i=i: x[i], part) for part, i in zip(pool[:4], which, strict=True)
    ]
    batch = Batch(*take, expert_ended=ended[1])
    if not restart:
        return batch
    fresh = slices.start[0] + jax.random.randint(k_start, (4, n), 0, slices.steps[0])
    return _restarted(batch, ended, pool.init[fresh])


def draw_by_weight(
    key: Key[Array, ""],
    pool: Batch,
    slices: Slices,
    log_weights: Callable[[Transitions], Values],
    *,
    hold_out: bool,
) -> Int[Array, " drawn"]:
    """Numbers of offline rows in the pool, drawn by the weights of a large sample of the steps."""
    k_sample, k_draw = jax.random.split(key)
    divided = DIVIDED if hold_out else 0 * DIVIDED
    sample = slices.start[2] + _numbers(k_sample, slices.steps, divided, SAMPLE)[2]

    def piece(rows: Int[Array, " n"]) -> Values:
        return log_weights(jax.tree.map(lambda x: x[rows], pool.offline))

    x = jax.lax.map(piece, sample.reshape(-1, PIECE)).ravel()
    # Weights of χ² may all be zero. Then all rows are alike.
    top = jnp.max(x)
    sums = jnp.cumsum(jnp.where(jnp.isfinite(top), jnp.exp(x - top), 1.0))
    place = jnp.searchsorted(sums, sums[-1] * jax.random.uniform(k_draw, (DRAWN,)))
    return sample[jnp.minimum(place, SAMPLE - 1)].astype(jnp.int32)


def _restarted(batch: Batch, ended: Bool[Array, "4 n"], fresh: Float[Array, "4 n state"]) -> Batch:
    """The batch in which initial states follow the ends."""

    def part(rows: Any, i: int) -> Any:
        next_state = jnp.where(ended[i][:, None], fresh[i], rows.s_next)
        return rows._replace(s_next=next_state)

    return batch._replace(
        expert=part(batch.expert, 1),
        offline=part(batch.offline, 2),
        labelled=batch.labelled and part(batch.labelled, 3),
    )


def end_mass(algorithm: Algorithm, terminal: Terminal) -> Any:
    """The mass of the row of an end, where that of a step is 1."""
    if terminal == "keep" or not algorithm.goes_on:
        return 0.0
    if terminal == "restart":
        return 1.0
    gamma: Any = getattr(algorithm, "gamma")  # noqa: B009
    return gamma / (1 - gamma)


def end_share(steps: Any, ends: Any, mass: Any) -> Float[Array, "..."]:
    """The probability that a draw from a part is an end."""
    return mass * ends / jnp.maximum(mass * ends + steps, 1)


def _numbers(
    key: Key[Array, ""],
    size: Int[Array, " 4"],
    divided: Int[np.ndarray, " 4"],
    n: int,
    apart: bool = False,
) -> Int[Array, "4 n"]:
    """Random numbers of rows that are not held out, or with `apart` of those that are."""
    held = divided * held_out_count(size)
    number = jax.random.randint(key, (4, n), 0, jnp.maximum((size - held)[:, None], 1))
    learned = number + divided[:, None] * (number // LEARNED * BLOCK)
    if not apart:
        return learned
    number = jax.random.randint(key, (4, n), 0, jnp.maximum(held[:, None], 1))
    return jnp.where(held[:, None], LEARNED + number // BLOCK * PERIOD + number % BLOCK, learned)


def held_out_count(size: Int[Array, " parts"]) -> Int[Array, " parts"]:
    """The number of held-out rows in parts of the given sizes."""
    return size // PERIOD * BLOCK + jnp.maximum(size % PERIOD - LEARNED, 0)


def held_out_rows(size: int) -> Int64[np.ndarray, " n"]:
    """The numbers of the held-out rows of a part; all rows if there are too few to spare any."""
    rows = np.arange(size)
    return rows[rows % PERIOD >= LEARNED] if size > LEARNED else rows


def _append(rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, more]) if len(more) else rows


def _rows(part: Any) -> int:
    return len(jax.tree.leaves(part)[0]) if part is not None else 0


def _no_ends(data: Data) -> Ends:
    none = data.init[:0]
    return Ends(none, none, data.source[:0])
