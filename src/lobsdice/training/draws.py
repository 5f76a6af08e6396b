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

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int64, Key

from lobsdice.algorithms.base import Algorithm
from lobsdice.algorithms.batch import Batch, Following
from lobsdice.data.prepare import Ahead, Data, Ends, States
from lobsdice.data.steps import Steps, join
from lobsdice.equations.duals import Number
from lobsdice.equations.terminal import Terminal

#: Expert and offline rows are held out in blocks: the last BLOCK rows of each PERIOD. Single rows
#: would not do, because neighbouring steps are nearly the same. Of a part without a whole block
#: none are: a few rows would measure nothing.
PERIOD, BLOCK = 512, 32
LEARNED = PERIOD - BLOCK
#: 1 for the parts of a batch that have held-out rows. Initial states and labelled rows have none.
DIVIDED = np.array([0, 1, 1, 0], np.int32)
#: A batch has this many times fewer initial states than other rows. They enter losses as a mean
#: with the small factor 1-γ, so a few are enough.
INITIAL_SHARE = 4


class Pool(NamedTuple):
    """All rows of a fleet: in each part the recorded steps, then a row for each end."""

    init: Float[Any, "n0 state"]
    expert: Steps
    offline: Steps
    labelled: Steps | None = None
    notes: Any = None
    """The notes of all runs on the logged steps, run by run; None if there are none."""
    ahead: Ahead | None = None
    """The steps that follow, with an entry for each row of the pool; None if that is unknown."""


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
    notes: Int[Array, "..."] | None = None
    """The first of the run's notes in the pool, if the algorithm has notes."""
    blur: Float[Array, "... state"] | None = None
    """The noise on each feature that discriminators see; None if no dataset has any."""


def pack(datas: Sequence[Data]) -> tuple[Pool, Slices]:
    """The pool with the rows of all datasets one after the other, and the slices of each."""
    init, *parts = zip(*map(with_ends, datas), strict=True)
    joined: list[Any] = [None if part[0] is None else join(part) for part in parts]
    pool = jax.tree.map(jnp.asarray, Pool(np.concatenate(init), *joined))
    steps, ends, weight = np.moveaxis(np.array([end_counts(data) for data in datas]), -1, 0)
    size = steps + ends
    start = np.cumsum(size, axis=0) - size
    pool = pool._replace(ahead=_ahead(datas, start.astype(np.int64)))
    start, steps, ends = (jnp.asarray(x, jnp.int32) for x in (start, steps, ends))
    return pool, Slices(start, steps, ends, jnp.asarray(weight, jnp.float32), blur=blurs(datas))


def blurs(datas: Sequence[Data]) -> Float[Array, "datas state"] | None:
    """The noise on each feature that discriminators see, of each dataset; None if none has any."""
    if all(data.blur is None for data in datas):
        return None
    none = np.zeros(datas[0].state_size, np.float32)
    return jnp.asarray(np.stack([none if data.blur is None else data.blur for data in datas]))


def _ahead(datas: Sequence[Data], start: Int[np.ndarray, "datas 4"]) -> Ahead | None:
    """The steps that follow in all episodes, numbered as in the pool."""
    if any(data.ahead is None for data in datas):
        return None
    parts = []
    for data, (_, _, offline, _) in zip(datas, start, strict=True):
        assert data.ahead is not None
        ends = data.ends or _no_ends(data)
        expert, logged = (
            np.concatenate([terminating, np.zeros(len(final), bool)])
            for terminating, final in zip(data.ahead[:2], ends[:2], strict=True)
        )
        parts.append(Ahead(expert, logged, data.ahead.first + np.int32(offline)))
    return jax.tree.map(lambda *xs: jnp.asarray(np.concatenate(xs)), *parts)


def end_counts(data: Data) -> list[tuple[int, int, float]]:
    """For each part of a batch: the numbers of steps and of ends, and the weight of an end."""
    ends = data.ends or _no_ends(data)
    kept = 1 / data.every
    return [
        (len(data.init), 0, 1.0),
        (data.expert.size, len(ends.expert), kept),
        (data.offline.size, len(ends.offline), data.end_weight),
        (data.labelled.size if data.labelled else 0, len(_labelled_ends(data)), kept),
    ]


def with_ends(data: Data) -> Pool:
    """All rows of a dataset."""
    ends = data.ends or _no_ends(data)
    return Pool(
        data.init,
        _append(data.expert, ends.expert),
        _append(data.offline, ends.offline),
        data.labelled and _append(data.labelled, _labelled_ends(data)),
    )


def draw_batch(
    key: Key[Array, ""],
    pool: Pool,
    slices: Slices,
    n: int,
    *,
    end_mass: Number = 0.0,
    restart: bool = False,
    hold_out: bool = False,
    apart: bool = False,
    ahead: Terminal | None = None,
) -> Batch:
    """Draw `n` rows of each part of a run's data, with replacement; fewer of `init`.

    The row of an end is drawn `end_mass` times as often as that of a step. It leads to a random
    initial state with `restart`, else to itself. With `hold_out` held-out rows are never drawn,
    and with `apart` no others, where there are some. With `ahead` there is also what follows the
    next states, where that says what follows an end.
    """
    *k_rows, k_start = jax.random.split(key, 4)
    number, ended = _draw_numbers(k_rows, slices, n, end_mass, hold_out, apart)
    rows = number + slices.start[:, None]
    few = -(-n // INITIAL_SHARE)
    batch = Batch(
        pool.init[rows[0, :few]],
        pool.expert.take(rows[1]),
        pool.offline.take(rows[2]),
        pool.labelled and pool.labelled.take(rows[3]),
        expert_ended=ended[1],
        notes=notes_at(pool, slices, number[2]),
        blur=slices.blur,
    )
    if not restart and ahead is None:
        return batch
    fresh = slices.start[0] + jax.random.randint(k_start, (4, n), 0, slices.steps[0])
    if ahead is not None:
        drawn = zip(rows, ended, fresh, strict=True)
        _, expert, offline, _ = (following(pool, i, *part, ahead) for i, part in enumerate(drawn))
        batch = batch._replace(after_expert=expert, after_offline=offline)
    return _restarted(batch, ended, pool.init[fresh]) if restart else batch


def _draw_numbers(
    keys: Sequence[Key[Array, ""]],
    slices: Slices,
    n: int,
    end_mass: Number,
    hold_out: bool,
    apart: bool,
) -> tuple[Int[Array, "4 n"], Bool[Array, "4 n"]]:
    """Numbers of rows of each part, and True for those of ends; the options of `draw_batch`."""
    k_step, k_ended, k_end = keys
    divided = DIVIDED if hold_out else 0 * DIVIDED
    share = end_share(slices.steps, slices.ends, end_mass * slices.weight)
    ended = jax.random.bernoulli(k_ended, share[:, None], (4, n))
    of_ends = slices.steps[:, None] + numbers(k_end, slices.ends, divided, n, apart)
    return jnp.where(ended, of_ends, numbers(k_step, slices.steps, divided, n, apart)), ended


def following(
    pool: Pool,
    part: int,
    rows: Int[Any, " n"],
    ended: Bool[Any, " n"],
    fresh: Int[Any, " n"],
    terminal: Terminal,
) -> Following | None:
    """The states after the next states of some rows; None for a part that has no use for them.

    `ended` are the rows after an end, and `fresh` the numbers of the initial states that follow.
    """
    assert pool.ahead is not None  # `Fleet` has checked it
    known = {1: (pool.expert, pool.ahead.expert), 2: (pool.offline, pool.ahead.offline)}
    if part not in known:
        return None
    steps, terminating = known[part]
    s, there = steps.after_next(rows)
    over = terminating[rows]
    if terminal == "restart":
        s = jnp.where(over[:, None], pool.init[fresh], s)
        second = pool.offline.take(pool.ahead.first[fresh]).s_next
        s = jnp.where(ended[:, None], second, s)
    goes_on = ~over if terminal == "keep" else jnp.ones_like(over)
    return Following(s, goes_on, there | over | ended)


def notes_at(pool: Pool, slices: Slices, number: Int[Array, " n"]) -> Any:
    """The notes on offline rows of a run, given by their numbers in its data."""
    if pool.notes is None:
        return None
    assert slices.notes is not None  # both are there, or none
    rows = slices.notes + number
    return jax.tree.map(lambda x: x[rows], pool.notes)


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


def numbers(
    key: Key[Array, ""],
    size: Int[Array, " 4"],
    divided: Int[np.ndarray, " 4"],
    n: int,
    apart: bool = False,
) -> Int[Array, "4 n"]:
    """Random numbers of rows that are not held out, or with `apart` of those that are."""
    held = divided * held_out_count(size)
    number = jax.random.randint(key, (4, n), 0, jnp.maximum((size - held)[:, None], 1))
    blocks = divided * (size >= PERIOD)
    learned = number + blocks[:, None] * (number // LEARNED * BLOCK)
    if not apart:
        return learned
    number = jax.random.randint(key, (4, n), 0, jnp.maximum(held[:, None], 1))
    return jnp.where(held[:, None], LEARNED + number // BLOCK * PERIOD + number % BLOCK, learned)


def held_out_count(size: Int[Array, " parts"]) -> Int[Array, " parts"]:
    """The number of held-out rows in parts of the given sizes."""
    rest = jnp.where(size >= PERIOD, size % PERIOD - LEARNED, 0)
    return size // PERIOD * BLOCK + jnp.maximum(rest, 0)


def learned_rows(size: int) -> Int64[np.ndarray, " n"]:
    """The numbers of the rows of a part that training sees."""
    rows = np.arange(size)
    return rows[rows % PERIOD < LEARNED] if size >= PERIOD else rows


def held_out_rows(size: int) -> Int64[np.ndarray, " n"]:
    """The numbers of the held-out rows of a part; all rows if there are too few to spare any."""
    rows = np.arange(size)
    return rows[rows % PERIOD >= LEARNED] if size >= PERIOD else rows


def _append(steps: Steps, final: States) -> Steps:
    """The steps with a row for each end, in which the final state follows itself."""
    if not len(final):
        return steps
    a = steps.a
    if a is not None:
        # A missing action is NaN or -1, see `algorithms.networks`.
        fill = np.nan if np.issubdtype(a.dtype, np.floating) else -1
        a = np.full((len(final), *a.shape[1:]), fill, a.dtype)
    row = np.arange(len(final), dtype=np.int32)
    return join([steps, Steps(final, np.ones(len(final), bool), row, a)])


def _no_ends(data: Data) -> Ends:
    none = data.init[:0]
    return Ends(none, none, data.source[:0])


def _labelled_ends(data: Data) -> States:
    found = data.ends and data.ends.labelled
    return data.init[:0] if found is None else found
