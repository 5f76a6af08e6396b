"""Expectations under a batch (uniform) or under given probabilities, in numerically safe form."""

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

Probs = Float[Array, " n"] | None


def mean(x: Float[Array, " n"], p: Probs = None) -> Float[Array, ""]:
    """E_p[x]; p = None is the batch mean."""
    return jnp.mean(x) if p is None else jnp.sum(p * x)


def log_mean_exp(x: Float[Array, " n"], p: Probs = None) -> Float[Array, ""]:
    """log E_p[exp x]; p = None is the batch mean."""
    return logsumexp(x) - jnp.log(float(x.size)) if p is None else logsumexp(x, b=p)
