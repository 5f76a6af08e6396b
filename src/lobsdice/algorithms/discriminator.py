"""What algorithms with a discriminator and a critic share: their losses and penalties on rows."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Batch, Metrics
from lobsdice.equations.duals import Number
from lobsdice.equations.ratio import (
    Rows,
    Values,
    auc,
    between,
    bounded_log_ratio,
    calibration_error,
    flat_slope_penalty,
    logistic_loss,
    slopes,
    unit_slope_penalty,
)


def beside(x: Float[Array, "n first"], y: Float[Array, "n second"]) -> Rows:
    """A state and the next one, or a state and an action, side by side."""
    return jnp.concatenate([x, y], axis=-1)


def pairs(batch: Batch) -> tuple[Rows, Rows]:
    """A state and the next one, of the expert's and of the offline transitions."""
    return beside(batch.expert_s, batch.expert_s_next), beside(batch.s, batch.s_next)


def at(net: Any, *parts: Float[Array, "_ features"]) -> list[Float[Array, " _"]]:
    """A network at several sets of rows, in one pass: wide matrix products are cheaper."""
    ends = np.cumsum([len(part) for part in parts])
    return jnp.split(net(jnp.concatenate(parts)), ends[:-1].tolist())


def share(rows: Rows, parts: int) -> Float[Array, "m features"]:
    """The first of so many equal parts: rows are drawn at random, so a part is a smaller draw."""
    return rows[: -(-len(rows) // parts)]


def ratio_loss(
    net: Any, expert: Rows, offline: Rows, *, floor: Number
) -> tuple[Float[Array, ""], Values]:
    """The discriminator's loss, and r = log d^E/d^I at the offline rows, held fixed."""
    at_expert, at_offline = at(net, expert, offline)
    r = stop_gradient(bounded_log_ratio(at_offline, floor))
    return logistic_loss(at_expert, at_offline), r


def discrimination(net: Any, expert: Rows, offline: Rows) -> Metrics:
    """How well the discriminator tells rows apart that it has not seen, and how well it knows."""
    at_expert, at_offline = at(net, expert, offline)
    return {
        "ratio_auc": auc(at_expert, at_offline),
        "ratio_calibration": calibration_error(at_expert, at_offline),
    }


def ratio_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""], *, floor: Number
) -> Float[Array, ""]:
    """How far r is from slope one, between expert and offline rows and among offline rows."""
    # A neighbour is as good a partner as any other row.
    x = jnp.concatenate([share(expert, 2), share(offline, 2)])
    y = jnp.concatenate([share(offline, 2), share(jnp.roll(offline, 1, axis=0), 2)])
    points = between(key, x, y)
    return unit_slope_penalty(slopes(lambda x: bounded_log_ratio(net(x), floor), points))


def critic_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""], *, more: Float[Array, "m features"]
) -> Float[Array, ""]:
    """How steep a critic is, between expert and offline rows and at the rows of `more`."""
    points = jnp.concatenate([more, between(key, expert, offline)])
    return flat_slope_penalty(slopes(net, points))


def pair_critic_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""]
) -> Float[Array, ""]:
    """`critic_penalty` of a function of pairs, or of whatever the rows are."""
    expert, offline = share(expert, 2), share(offline, 2)
    return critic_penalty(net, expert, offline, key, more=offline)


def state_critic_penalty(net: Any, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
    """`critic_penalty` of a function of the state, at both ends of transitions."""
    expert = jnp.concatenate([share(batch.expert_s, 3), share(batch.expert_s_next, 3)])
    offline = jnp.concatenate([share(batch.s, 3), share(batch.s_next, 3)])
    return critic_penalty(net, expert, offline, key, more=share(batch.s, 3))
