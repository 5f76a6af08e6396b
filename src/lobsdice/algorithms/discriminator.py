"""The discriminator, which learns r = log d^E/d^I, and gradient penalties on it and on critics."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.nn import sigmoid
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.acting import Acting
from lobsdice.algorithms.base import Metrics, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, blurred, pairs, share
from lobsdice.algorithms.networks import Scalar
from lobsdice.equations.classification import auc, calibration_error
from lobsdice.equations.duals import Number
from lobsdice.equations.ratio import (
    Rows,
    Values,
    between,
    bounded_log_ratio,
    calibration,
    gradients,
    logistic_loss,
    squared_gradient_penalty,
    unit_gradient_penalty,
)


class Discriminator(Scalar):
    """A network whose logit tells the expert's rows from others, and a line that calibrates it.

    The network learns as it is. Only `refresh` moves the line.
    """

    slope: Float[Array, ""]
    bias: Float[Array, ""]

    def __init__(self, key: Key[Array, ""], in_size: int, width: int):
        super().__init__(key, in_size, width)
        self.slope, self.bias = jnp.ones(()), jnp.zeros(())

    def line(self, logit: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """The calibrated logit."""
        return stop_gradient(self.slope) * logit + stop_gradient(self.bias)

    def learned(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch"]:
        """The logit as the network learns it."""
        return super().__call__(x)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch"]:
        return self.line(self.learned(x))

    def fitted(self, expert: Rows, offline: Rows) -> "Discriminator":
        """The same network with the line that fits these rows best."""
        found = calibration(*at(self.learned, expert, offline))
        return eqx.tree_at(lambda x: (x.slope, x.bias), self, found)


@hyperparameters
class Discriminating(Acting):
    """The hyperparameters of every algorithm with a discriminator."""

    published: ClassVar[dict[str, Any]] = {
        "penalty_every": 1,
        "ratio_floor": 0.0,
        "blur": 0.0,
    }

    ratio_penalty: float = at_least(0, default=0.1)
    """Weight of the gradient penalty on r."""
    ratio_floor: float = at_least(0, default=1e-3)
    """ε: the ratio d^E/d^I is kept within about [ε, 1/ε]. Not in the paper."""
    ratio_rate: float = at_least(0, default=3e-4)
    """Learning rate of the discriminator."""
    blur: float = at_least(0, default=0.5)
    """Noise with which the discriminator sees features that never change in an episode, such as a
    goal's place; 1 is Silverman's rule for the number of demonstrations. Not in the paper."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""
    penalty_every: int = at_least(1, default=8)
    """Apply penalties only in each n-th step, at n times the weight. Cheaper; not in the paper."""
    calibrate: bool = False
    """Correct r by the line that fits its logit best on held-out rows. Not in the paper. Nothing is
    corrected if the demonstrations are too few to hold rows out."""
    refresh_every: int = at_least(1, default=128)
    """Steps between two fits of that line, and two draws of the rows to clone."""

    def seen(self, nets: Any, batch: Batch, key: Key[Array, ""]) -> tuple[Rows, Rows]:
        """The expert's and the offline rows that the discriminator tells apart."""
        del nets
        batch = blurred(batch, key, self.blur)
        return pairs(batch.expert), pairs(batch.offline)

    def refresh(self, nets: Any, held_out: Batch, key: Key[Array, ""]) -> Any:
        if not self.calibrate:
            return nets
        return nets._replace(r=nets.r.fitted(*self.seen(nets, held_out, key)))

    def diagnose(self, nets: Any, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return discrimination(nets.r, *self.seen(nets, batch, key))

    def weighted_ratio_penalty(
        self, net: Any, expert: Rows, offline: Rows, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """The gradient penalty on r, times its weight."""
        return self.ratio_penalty * ratio_penalty(net, expert, offline, key, floor=self.ratio_floor)


def ratio_loss(
    net: Any, expert: Rows, offline: Rows, *, floor: Number
) -> tuple[Float[Array, ""], Values]:
    """The discriminator's loss, and r = log d^E/d^I at the offline rows, calibrated and fixed."""
    at_expert, at_offline = at(net.learned, expert, offline)
    r = stop_gradient(bounded_log_ratio(net.line(at_offline), floor))
    return logistic_loss(at_expert, at_offline), r


def discrimination(net: Discriminator, expert: Rows, offline: Rows) -> Metrics:
    """AUC of the discriminator on held-out rows; its calibration error before and after the fit."""
    at_expert, at_offline = at(net.learned, expert, offline)
    before, after = (
        calibration_error(sigmoid(positive), sigmoid(negative))
        for positive, negative in (
            (at_expert, at_offline),
            (net.line(at_expert), net.line(at_offline)),
        )
    )
    return {
        "ratio_auc": auc(at_expert, at_offline),
        "ratio_calibration": before,
        "ratio_calibrated": after,
        "ratio_slope": net.slope,
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

    def r(row: Float[Array, " features"]) -> Float[Array, ""]:
        return bounded_log_ratio(net.learned(row), floor)

    return unit_gradient_penalty(gradients(r, points))


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
