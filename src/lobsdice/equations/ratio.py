"""The log density ratio r = log d^E/d^I, learned by classification, and gradient penalties.

A discriminator tells the expert's rows from the offline rows. Its logit h estimates r.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Rows = Float[Array, "n features"]
Values = Float[Array, " n"]
#: The range of the slope of `calibration`: beyond it a fit says more of its rows than of the logit.
SLOPES = (0.1, 4.0)


def logistic_loss(expert: Values, offline: Values) -> Float[Array, ""]:
    """-E_E[log σ(h)] - E_I[log(1 - σ(h))], eq. (53). Its minimiser is h = log d^E/d^I."""
    return jnp.mean(jax.nn.softplus(-expert)) + jnp.mean(jax.nn.softplus(offline))


def unlabelled_loss(
    expert: Values, offline: Float[Array, " m"], prior: float | Float[Array, ""]
) -> Float[Array, ""]:
    """The loss if a share `prior` of the offline rows are the expert's too, but not marked.

    π E_E[-log σ(h)] + max(0, E_I[-log(1 - σ(h))] - π E_E[-log(1 - σ(h))]): what the expert's rows
    among the offline ones add to the second mean is taken away again (Kiryo et al., 2017).
    """
    negative = jnp.mean(jax.nn.softplus(offline)) - prior * jnp.mean(jax.nn.softplus(expert))
    return prior * jnp.mean(jax.nn.softplus(-expert)) + jnp.maximum(negative, 0.0)


def bounded_log_ratio(
    logit: Float[Array, "*n"], floor: float | Float[Array, ""]
) -> Float[Array, "*n"]:
    """log (c + ε)/(1 - c + ε) with c = σ(logit): the log ratio, bounded by ±log(1 + 1/ε).

    Without ε this is the logit itself, which is unbounded: a discriminator that is sure of a few
    pairs would give them all the weight. The authors' code bounds it too, but not symmetrically.
    """
    # In logarithms, so that without ε a large logit stays what it is.
    least = jnp.log(floor)
    high, low = (jnp.logaddexp(jax.nn.log_sigmoid(x), least) for x in (logit, -logit))
    return high - low


def calibration(
    expert: Values, offline: Float[Array, " m"], *, ridge: float = 1e-3, steps: int = 10
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The slope a and the bias b for which a h + b has the smallest logistic loss.

    By Newton's method. A small price for the distance of (a, b) from (1, 0) keeps both finite where
    the logits of the two classes do not overlap.
    """
    logit = jnp.concatenate([expert, offline])
    x = jnp.stack([logit, jnp.ones_like(logit)], axis=1)
    shares = [jnp.full_like(part, 0.5 / len(part)) for part in (expert, offline)]
    p, is_expert = jnp.concatenate(shares), jnp.arange(len(logit)) < len(expert)
    begin = jnp.array([1.0, 0.0])

    def newton(line: Float[Array, " 2"], _: None) -> tuple[Float[Array, " 2"], None]:
        c = jax.nn.sigmoid(x @ line)
        gradient = (p * (c - is_expert)) @ x + ridge * (line - begin)
        hessian = (x * (p * c * (1 - c))[:, None]).T @ x + ridge * jnp.eye(2)
        step = jnp.linalg.solve(hessian, gradient)
        # Far from the minimum a whole step may lead away from it.
        return line - step / jnp.maximum(1.0, 2 * jnp.linalg.norm(step)), None

    slope, bias = jax.lax.scan(newton, begin, None, length=steps)[0]
    return jnp.clip(slope, *SLOPES), bias


def between(key: Key[Array, ""], x: Rows, y: Rows) -> Rows:
    """Uniformly random points on the segments from the rows of x to those of y."""
    u = jax.random.uniform(key, (len(x), 1))
    return y + jnp.broadcast_to(u, x.shape) * (x - y)


def gradients(
    function: Callable[[Float[Array, " features"]], Float[Array, ""]], points: Rows
) -> Rows:
    """The gradient of a scalar function at each point, row by row."""
    return jax.vmap(jax.grad(function))(points)


def unit_gradient_penalty(gradient: Rows) -> Float[Array, ""]:
    """E[(‖gradient‖ - 1)²] (Gulrajani et al., 2017)."""
    # The offset keeps the norm differentiable at zero, the gradient of a dead network.
    norm = jnp.sqrt(jnp.sum(gradient**2, axis=-1) + 1e-12)
    return jnp.mean((norm - 1) ** 2)


def squared_gradient_penalty(gradient: Rows) -> Float[Array, ""]:
    """E[‖gradient‖²]."""
    return jnp.mean(jnp.sum(gradient**2, axis=-1))
