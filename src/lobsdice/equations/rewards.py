"""Rewards from the likeness of logged steps to demonstrations, and their sums along episodes.

paper            here       meaning
d (SEABO)        distance   from (s,s') to the nearest demonstrated pair
|A|              size       number of coordinates of an action
C_i (OTR)        cost       of moving step i's share of the episode to the demonstration
R_t (TAILO)      r          log ratio of a discriminator at step t
W_t, G_t         mean       discounted mean of what the episode still holds
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lobsdice.equations.duals import Number, Values

#: β of SEABO (section 4 of its paper); α is 1.
NEAREST_DECAY = 0.5
#: α and β of OTR's squashing (configs of its code).
TRANSPORT_SCALE, TRANSPORT_DECAY = 5.0, 5.0
#: The spread of returns to which IQL and OTR scale rewards in locomotion.
SPAN = 1000.0


def nearest_reward(distance: Values, size: int, sharpness: Number) -> Values:
    """exp(-β d / |A|) with β = 0.5 (SEABO), times `sharpness` in the exponent."""
    return jnp.exp(-sharpness * NEAREST_DECAY * distance / size)


def transport_reward(cost: Values, sharpness: Number) -> Values:
    """5 exp(-5 c) (OTR), where c is the step's cost times its episode's length by |s|."""
    return TRANSPORT_SCALE * jnp.exp(-sharpness * TRANSPORT_DECAY * cost)


def log_nearness(distance: Values, unit: Number) -> Values:
    """log u = -max(d/d0 - 1, 0): zero up to the usual distance d0 between demonstrations."""
    return -jnp.maximum(distance / unit - 1, 0.0)


def return_span(reward: Values, last: Bool[Array, " n"]) -> Float[Array, ""]:
    """The largest less the smallest return of all episodes; `last` marks their last rows."""
    episode = jnp.cumsum(last) - last
    sums = jax.ops.segment_sum(reward, episode, num_segments=len(reward))
    real = jnp.arange(len(reward)) < jnp.sum(last)
    largest = jnp.max(jnp.where(real, sums, -jnp.inf))
    return largest - jnp.min(jnp.where(real, sums, jnp.inf))


def log_discounted_means(
    log_x: Values, log_beyond: Values, last: Bool[Array, " n"], gamma: Number
) -> Values:
    """log G with G_t = (1-γ) x_t + γ G_{t+1}, along each episode.

    After the row marked `last`, the value `beyond` of that row goes on for ever. Rows of an episode
    follow one another. In logarithms, so that exp(x) of large x does not overflow.
    """
    now, later = jnp.log1p(-gamma) + log_x, jnp.log(gamma)
    now = jnp.where(last, jnp.logaddexp(now, later + log_beyond), now)
    factor = jnp.where(last, -jnp.inf, later)
    # The program takes seconds to compile, so that all lengths up to a power of two share one. The
    # rows that are added are episodes of their own.
    rows = len(now)
    more = (0, (1 << (rows - 1).bit_length()) - rows)
    return _chained(jnp.pad(factor, more, constant_values=-jnp.inf), jnp.pad(now, more))[:rows]


@jax.jit
def _chained(factor: Values, now: Values) -> Values:
    """log G with G_t = exp(now_t) + exp(factor_t) G_{t+1}."""

    def joined(after, before):
        return before[0] + after[0], jnp.logaddexp(before[1], before[0] + after[1])

    return jax.lax.associative_scan(joined, (factor, now), reverse=True)[1]
