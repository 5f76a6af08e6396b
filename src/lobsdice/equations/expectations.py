"""Expectations under given probabilities, or under the uniform distribution over a batch."""

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

Probs = Float[Array, " n"] | None


def mean(x: Float[Array, " n"], p: Probs = None) -> Float[Array, ""]:
    """E_p[x]; without p, the batch mean."""
    return jnp.mean(x) if p is None else jnp.sum(p * x)


def log_mean_exp(x: Float[Array, " n"], p: Probs = None) -> Float[Array, ""]:
    """log E_p[exp x], without overflow; without p, E is the batch mean."""
    return logsumexp(x) - jnp.log(float(x.size)) if p is None else logsumexp(x, b=p)
