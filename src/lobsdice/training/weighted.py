"""The rows to clone, drawn by their weights.

The weights of single steps are noisy: a critic's error in one state makes one step of a good
episode look bad, and the next one look excellent. So the log weights of recorded steps in a row may
be averaged first. docs/mathematics/networks.md says what that does.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from lobsdice.equations.duals import Values
from lobsdice.training.draws import (
    DIVIDED,
    LEARNED,
    PERIOD,
    Pool,
    Slices,
    notes_at,
    numbers,
)

#: Rows that are weighed for a draw, rows that are drawn, and rows in one pass.
SAMPLE, DRAWN, PIECE = 2**15, 2**12, 2**13

#: Stretches of rows, one in each line.
Lines = Int[Array, "k stretch"]
Used = Bool[Array, "k stretch"]


def draw_by_weight(
    key: Key[Array, ""],
    pool: Pool,
    slices: Slices,
    log_weights: Callable[..., Values],
    *,
    hold_out: bool,
    stretch: int = 1,
    sharpened: Callable[[Values], Values] = lambda log_w: log_w,
) -> Int[Array, " drawn"]:
    """Numbers of offline rows in the pool, drawn by the weights of a large sample of the steps.

    The sample consists of stretches of recorded steps in a row. Log weights of the steps of one
    episode in a stretch are averaged, and all are sharpened afterwards.
    """
    k_sample, k_draw = jax.random.split(key)
    divided = DIVIDED if hold_out else 0 * DIVIDED
    some = numbers(k_sample, slices.steps, divided, SAMPLE // stretch)[2]
    lines, used = stretches(some, slices.steps[2], hold_out=hold_out, stretch=stretch)
    rows = slices.start[2] + lines
    x = _weighed(rows.ravel(), pool, slices, log_weights).reshape(rows.shape)
    x = sharpened(averaged(x, pool.offline.row[rows], used).ravel())
    # A stretch that is cut short is drawn as seldom as it is short.
    share = jnp.mean(used, axis=1, keepdims=True)
    x = jnp.where(used, x.reshape(rows.shape) - jnp.log(share), -jnp.inf).ravel()
    # Weights of χ² may all be zero. Then all rows are alike.
    top = jnp.max(x)
    sums = jnp.cumsum(jnp.where(jnp.isfinite(top), jnp.exp(x - top), used.ravel()))
    place = jnp.searchsorted(sums, sums[-1] * jax.random.uniform(k_draw, (DRAWN,)))
    return rows.ravel()[jnp.minimum(place, rows.size - 1)].astype(jnp.int32)


def _weighed(
    rows: Int[Array, " n"], pool: Pool, slices: Slices, log_weights: Callable[..., Values]
) -> Values:
    """The log weights of rows of the pool, piece by piece."""

    def piece(rows: Int[Array, " m"]) -> Values:
        notes = notes_at(pool, slices, rows - slices.start[2])
        given = () if notes is None else (notes,)
        return log_weights(pool.offline.take(rows), *given)

    whole = jnp.pad(rows, (0, -len(rows) % PIECE), mode="edge")
    return jax.lax.map(piece, whole.reshape(-1, PIECE)).ravel()[: len(rows)]


def stretches(
    some: Int[Array, " k"], size: Int[Array, ""], *, hold_out: bool, stretch: int
) -> tuple[Lines, Used]:
    """The stretches that some steps lie in, and True for the steps that may be used.

    Stretches follow each other from the first step on, or from the first one of each period that
    has held-out rows at its end. Those rows, and rows beyond the last step, are not used.
    """
    divided = hold_out & (size >= PERIOD)
    offset = jnp.where(divided, some % PERIOD, some)
    place = (offset // stretch * stretch)[:, None] + jnp.arange(stretch)[None]
    rows = (some - offset)[:, None] + place
    used = (place < jnp.where(divided, LEARNED, size)) & (rows < size)
    return jnp.where(used, rows, some[:, None]), used


def averaged(x: Float[Array, "k stretch"], row: Lines, used: Used) -> Float[Array, "k stretch"]:
    """The mean of x over the steps of one episode in each stretch; `row` are those of states.

    Between the states of two episodes lies a final state. So there a row is left out.
    """
    stretch = x.shape[1]
    if stretch == 1:
        return x
    begins = (jnp.diff(row, axis=1, prepend=row[:, :1] - 1) != 1) | ~used
    part = jnp.cumsum(begins, axis=1)

    def line(x: Values, part: Int[Array, " stretch"], used: Bool[Array, " stretch"]) -> Values:
        add = partial(jax.ops.segment_sum, segment_ids=part, num_segments=stretch + 1)
        mean = add(jnp.where(used, x, 0.0)) / jnp.maximum(add(used.astype(x.dtype)), 1.0)
        return mean[part]

    return jax.vmap(line)(x, part, used)
