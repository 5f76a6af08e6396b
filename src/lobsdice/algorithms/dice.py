"""What algorithms with one multiplier share: the loss of ν, and cloning under the weights d/d^I."""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Batch, Labelled, Metrics
from lobsdice.algorithms.discriminator import at, ratio_penalty, state_critic_penalty
from lobsdice.equations.duals import InitValues, Number, Values, dual, residual, weights
from lobsdice.equations.expectations import mean
from lobsdice.equations.ratio import Rows, bounded_log_ratio


def residuals(net: Any, batch: Batch, r: Values, *, gamma: Number) -> tuple[InitValues, Values]:
    """ν at initial states, and e = r + γ ν(s') - ν(s) at offline transitions."""
    nu_init, nu, nu_next = at(net, batch.init, batch.s, batch.s_next)
    return nu_init, residual(r, nu, nu_next, gamma)


def advantages(
    nets: Any, rows: Batch | Labelled, seen: Rows, *, gamma: Number, floor: Number
) -> Values:
    """e = r + γ ν(s') - ν(s) at transitions, of which the discriminator is shown `seen`."""
    r = bounded_log_ratio(nets.r(seen), floor)
    nu, nu_next = at(nets.nu, rows.s, rows.s_next)
    return residual(r, nu, nu_next, gamma)


def critic_loss(
    net: Any, batch: Batch, r: Values, *, gamma: Number, alpha: Number
) -> tuple[Float[Array, ""], Values]:
    """The dual of ν, and the weights d/d^I at the offline rows, held fixed."""
    nu_init, e = residuals(net, batch, r, gamma=gamma)
    w = stop_gradient(weights(e, alpha=alpha))
    return dual(nu_init, e, gamma=gamma, alpha=alpha), w


def cloning_loss(policy: Any, batch: Batch, w: Values) -> Float[Array, ""]:
    """-E_{d^I}[w log π(a|s)]: behaviour cloning of the weighted data."""
    return -mean(w * policy.log_prob(batch.s, batch.a))


@runtime_checkable
class Penalised(Protocol):
    """The hyperparameters that `slope_penalties` reads."""

    @property
    def ratio_floor(self) -> Number: ...
    @property
    def ratio_penalty(self) -> Number: ...
    @property
    def nu_penalty(self) -> Number: ...


def slope_penalties(
    by: Penalised,
    nets: Any,
    batch: Batch,
    key: Key[Array, ""],
    *,
    expert: Rows,
    offline: Rows,
    penalised: int,
) -> Metrics:
    """The penalties on r, at the rows that it tells apart, and on ν; zero in plain steps."""
    if not penalised:
        return dict.fromkeys(("ratio_penalty", "nu_penalty"), jnp.zeros(()))
    k_r, k_nu = jax.random.split(key)
    r_penalty = ratio_penalty(nets.r, expert, offline, k_r, floor=by.ratio_floor)
    nu_penalty = state_critic_penalty(nets.nu, batch, k_nu)
    return {"ratio_penalty": by.ratio_penalty * r_penalty, "nu_penalty": by.nu_penalty * nu_penalty}
