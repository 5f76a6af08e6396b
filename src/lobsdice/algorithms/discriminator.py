"""The discriminator, which learns r = log d^E/d^I, and gradient penalties on it and on critics."""

from typing import Any

import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.nn import sigmoid
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Defaults, Metrics, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, share
from lobsdice.equations.classification import auc, calibration_error
from lobsdice.equations.duals import Number
from lobsdice.equations.ratio import (
    Rows,
    Values,
    between,
    bounded_log_ratio,
    gradients,
    logistic_loss,
    squared_gradient_penalty,
    unit_gradient_penalty,
)


@hyperparameters
class Discriminating(Defaults):
    """The hyperparameters of every algorithm with a discriminator."""

    ratio_penalty: float = at_least(0, default=0.1)
    """Weight of the gradient penalty on r."""
    ratio_floor: float = at_least(0, default=1e-3)
    """ε: the ratio d^E/d^I is kept within about [ε, 1/ε]. Not in the paper."""
    ratio_rate: float = at_least(0, default=3e-4)
    """Learning rate of the discriminator."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""
    width: int = at_least(1, default=256)
    """Units in each of the two hidden layers of every network."""
    penalty_every: int = at_least(1, default=8)
    """Apply penalties only in each n-th step, at n times the weight. Cheaper; not in the paper."""

    def weighted_ratio_penalty(
        self, net: Any, expert: Rows, offline: Rows, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """The gradient penalty on r, times its weight."""
        return self.ratio_penalty * ratio_penalty(net, expert, offline, key, floor=self.ratio_floor)


def ratio_loss(
    net: Any, expert: Rows, offline: Rows, *, floor: Number
) -> tuple[Float[Array, ""], Values]:
    """The discriminator's loss, and r = log d^E/d^I at the offline rows, held fixed."""
    at_expert, at_offline = at(net, expert, offline)
    r = stop_gradient(bounded_log_ratio(at_offline, floor))
    return logistic_loss(at_expert, at_offline), r


def discrimination(net: Any, expert: Rows, offline: Rows) -> Metrics:
    """AUC and calibration error of the discriminator on held-out rows."""
    at_expert, at_offline = at(net, expert, offline)
    return {
        "ratio_auc": auc(at_expert, at_offline),
        "ratio_calibration": calibration_error(sigmoid(at_expert), sigmoid(at_offline)),
    }


def ratio_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""], *, floor: Number
) -> Float[Array, ""]:
    """The penalty on gradients of r whose norm is not 1.

    They are taken between expert and offline rows, and between offline rows.
    """
    # Rows are drawn at random, so the row before is a random partner.
    x = jnp.concatenate([share(expert, 2), share(offline, 2)])
    y = jnp.concatenate([share(offline, 2), share(jnp.roll(offline, 1, axis=0), 2)])
    points = between(key, x, y)
    return unit_gradient_penalty(gradients(lambda x: bounded_log_ratio(net(x), floor), points))


def critic_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""], *, more: Float[Array, "m features"]
) -> Float[Array, ""]:
    """The squared gradient of a critic, between expert and offline rows and at `more` rows."""
    points = jnp.concatenate([more, between(key, expert, offline)])
    return squared_gradient_penalty(gradients(net, points))


def pair_critic_penalty(
    net: Any, expert: Rows, offline: Rows, key: Key[Array, ""]
) -> Float[Array, ""]:
    """`critic_penalty` of a function of the rows that the discriminator sees."""
    expert, offline = share(expert, 2), share(offline, 2)
    return critic_penalty(net, expert, offline, key, more=offline)


def state_critic_penalty(net: Any, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
    """`critic_penalty` of a function of the state, for both states of the pairs."""
    expert = jnp.concatenate([share(x, 3) for x in batch.expert])
    offline = jnp.concatenate([share(batch.offline.s, 3), share(batch.offline.s_next, 3)])
    return critic_penalty(net, expert, offline, key, more=share(batch.offline.s, 3))
