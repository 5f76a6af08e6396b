"""What algorithms with a discriminator and a critic share: their losses and penalties on rows."""

from typing import Any

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Batch
from lobsdice.duals import Number
from lobsdice.ratio import (
    Rows,
    Values,
    between,
    bounded_log_ratio,
    flat_slope_penalty,
    logistic_loss,
    slopes,
    unit_slope_penalty,
)


def pairs(
    s: Float[Array, "n state"], s_next: Float[Array, "n state"]
) -> Float[Array, "n two_states"]:
    """A state and the next one, side by side."""
    return jnp.concatenate([s, s_next], axis=-1)


def at(net: Any, *parts: Rows) -> list[Values]:
    """A network at several sets of rows, in one pass: wide matrix products are cheaper."""
    return jnp.split(net(jnp.concatenate(parts)), len(parts))


def ratio_loss(
    net: Any, expert: Rows, offline: Rows, *, floor: Number
) -> tuple[Float[Array, ""], Values]:
    """The discriminator's loss, and r = log d^E/d^I at the offline rows, held fixed."""
    at_expert, at_offline = at(net, expert, offline)
    r = stop_gradient(bounded_log_ratio(at_offline, floor))
    return logistic_loss(at_expert, at_offline), r


def ratio_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""], *, floor: Number
) -> Float[Array, ""]:
    """How far r is from slope one, between expert and offline rows and among offline rows."""
    # Rows are drawn at random, so a neighbour is as good a partner as any other row.
    x = jnp.concatenate([expert, offline])
    y = jnp.concatenate([offline, jnp.roll(offline, 1, axis=0)])
    points = between(key, x, y)
    return unit_slope_penalty(slopes(lambda x: bounded_log_ratio(net(x), floor), points))


def critic_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""], *, more: Float[Array, "m features"]
) -> Float[Array, ""]:
    """How steep a critic is, between expert and offline rows and at the rows of `more`."""
    points = jnp.concatenate([more, between(key, expert, offline)])
    return flat_slope_penalty(slopes(net, points))


def state_critic_penalty(net: Any, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
    """`critic_penalty` of a function of the state, at both ends of transitions."""
    expert = jnp.concatenate([batch.expert_s, batch.expert_s_next])
    offline = jnp.concatenate([batch.s, batch.s_next])
    return critic_penalty(net, expert, offline, key, more=batch.s)
