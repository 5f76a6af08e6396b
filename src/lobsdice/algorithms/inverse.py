"""The inverse dynamics model p(a|s,s'), which fills in actions that nobody recorded.

A policy head that sees pairs (s, s') instead of states, trained by maximum likelihood on the
offline data but for the rows held out. Its errors there, and on labelled demonstrations where there
are any (they serve no other purpose), tell how far the actions it infers can be trusted.
"""

from typing import Any

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Metrics
from lobsdice.algorithms.discriminator import beside
from lobsdice.networks import PolicyNet, make_policy
from lobsdice.spaces import ActionSpace


def make_inverse(key: Key[Array, ""], state_size: int, space: ActionSpace, width: int) -> PolicyNet:
    """A fresh model: Gaussian (after tanh) for a box of actions, categorical for a finite set."""
    return make_policy(key, 2 * state_size, space, width)


def inverse_loss(net: Any, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
    """-E_{d^I}[log p(a|s,s')] on rows to learn from, and errors on rows it does not learn from."""
    seen = beside(batch.s, batch.s_next)
    loss = -_mean_where(~batch.held_out, net.log_prob(seen, batch.a))
    # Where the batch holds nothing out (tiny data), the error is the one on all rows.
    held_out = batch.held_out | ~jnp.any(batch.held_out)
    metrics = {
        "inverse_loss": loss,
        "inverse_error": _mean_where(held_out, net.error(seen, batch.a)),
    }
    if batch.labelled is not None:
        shown = beside(batch.labelled.s, batch.labelled.s_next)
        metrics["inverse_expert_error"] = jnp.mean(net.error(shown, batch.labelled.a))
    return loss, metrics


def infer_expert_actions(
    net: Any, batch: Batch, key: Key[Array, ""]
) -> Float[Array, "n action"] | Int[Array, " n"]:
    """Actions for the expert's pairs, drawn from the model as it stands, held fixed.

    Drawn rather than the likeliest: where several actions lead from s to s', all get their share.
    """
    return stop_gradient(net.sample(beside(batch.expert_s, batch.expert_s_next), key))


def _mean_where(mask: Array, values: Array) -> Float[Array, ""]:
    return jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(jnp.sum(mask), 1)
