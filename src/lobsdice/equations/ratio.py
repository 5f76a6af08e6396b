"""The log density ratio r = log d^E/d^I, learned by telling expert pairs from offline ones."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Rows = Float[Array, "n features"]
Values = Float[Array, " n"]


def logistic_loss(expert: Values, offline: Values) -> Float[Array, ""]:
    """-E_E[log σ(h)] - E_I[log(1 - σ(h))], eq. loss_J_c; its minimiser is h = log d^E/d^I."""
    return jnp.mean(jax.nn.softplus(-expert)) + jnp.mean(jax.nn.softplus(offline))


def bounded_log_ratio(
    logit: Float[Array, "*n"], floor: float | Float[Array, ""]
) -> Float[Array, "*n"]:
    """log (c + ε)/(1 - c + ε) with c = σ(logit): the log ratio, held within ±log(1 + 1/ε).

    Without ε this is the logit itself, which is unbounded: a discriminator that is sure of a few
    pairs would hand all the weight to them. The reference code bounds it too, asymmetrically.
    """
    return jnp.log(jax.nn.sigmoid(logit) + floor) - jnp.log(jax.nn.sigmoid(-logit) + floor)


def auc(expert: Values, offline: Values) -> Float[Array, ""]:
    """How often an expert row has the larger logit than an offline row; ties count one half."""
    order = jnp.sort(offline)
    less, most = (jnp.searchsorted(order, expert, side=side) for side in ("left", "right"))
    return jnp.mean(less + most) / (2 * len(offline))


def calibration_error(expert: Values, offline: Values, *, bins: int = 10) -> Float[Array, ""]:
    """Mean of |σ(h) - share of expert rows|, over equal intervals of σ(h) (Naeini et al., 2015)."""
    c = jax.nn.sigmoid(jnp.concatenate([expert, offline]))
    excess = c - (jnp.arange(len(c)) < len(expert))
    interval = jnp.minimum(jnp.int32(bins * c), bins - 1)
    return jnp.sum(jnp.abs(excess @ jax.nn.one_hot(interval, bins))) / len(c)


def between(key: Key[Array, ""], x: Rows, y: Rows) -> Rows:
    """For each row a uniform point on the segment from x to y."""
    u = jax.random.uniform(key, (len(x), 1))
    return y + jnp.broadcast_to(u, x.shape) * (x - y)


def slopes(function: Callable[[Float[Array, " features"]], Float[Array, ""]], points: Rows) -> Rows:
    """The gradient of a scalar function at each point, row by row."""
    return jax.vmap(jax.grad(function))(points)


def unit_slope_penalty(slope: Rows) -> Float[Array, ""]:
    """E[(‖slope‖ - 1)²] (Gulrajani et al., 2017)."""
    # The offset keeps the norm differentiable where a dead network has slope zero.
    norm = jnp.sqrt(jnp.sum(slope**2, axis=-1) + 1e-12)
    return jnp.mean((norm - 1) ** 2)


def flat_slope_penalty(slope: Rows) -> Float[Array, ""]:
    """E[‖slope‖²]."""
    return jnp.mean(jnp.sum(slope**2, axis=-1))
