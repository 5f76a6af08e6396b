"""Weighted cloning of the logs, the last step of many methods."""

from typing import Any

from jax.lax import stop_gradient
from jaxtyping import Array, Float

from lobsdice.algorithms.batch import Batch
from lobsdice.equations.duals import Values
from lobsdice.equations.expectations import mean


def cloning_loss(policy: Any, batch: Batch, w: Values) -> Float[Array, ""]:
    """The loss of cloning: of rows drawn by weight, or else of all rows with weights w."""
    if batch.cloned is not None:
        return -mean(policy.log_prob(batch.cloned.s, batch.cloned.a))
    return -mean(stop_gradient(w) * policy.log_prob(batch.offline.s, batch.offline.a))
