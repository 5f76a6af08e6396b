"""The inverse dynamics model p(a|s,s'), which fills in actions that nobody recorded.

A policy head that sees pairs (s, s') instead of states, trained by maximum likelihood on the
offline data. Its errors on rows held out, and on labelled demonstrations where there are any (they
serve no other purpose), tell how far the actions it infers can be trusted.
"""

from typing import Any

from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Labelled, Metrics
from lobsdice.algorithms.discriminator import beside
from lobsdice.algorithms.networks import PolicyNet, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.expectations import mean


def make_inverse(key: Key[Array, ""], state_size: int, space: ActionSpace, width: int) -> PolicyNet:
    """A fresh model: Gaussian (after tanh) for a box of actions, categorical for a finite set."""
    return make_policy(key, 2 * state_size, space, width)


def inverse_loss(net: Any, batch: Batch) -> Float[Array, ""]:
    """-E_{d^I}[log p(a|s,s')]."""
    return -mean(net.log_prob(beside(batch.s, batch.s_next), batch.a))


def inverse_errors(net: Any, batch: Batch) -> Metrics:
    """How far the model's likeliest actions are from the true ones."""

    def error(rows: Batch | Labelled) -> Float[Array, ""]:
        return mean(net.error(beside(rows.s, rows.s_next), rows.a))

    errors = {"inverse_error": error(batch)}
    if batch.labelled is not None:
        errors["inverse_expert_error"] = error(batch.labelled)
    return errors


def infer_expert_actions(
    net: Any, batch: Batch, key: Key[Array, ""]
) -> Float[Array, "n action"] | Int[Array, " n"]:
    """Actions for the expert's pairs, drawn from the model as it stands, held fixed.

    Drawn rather than the likeliest: where several actions lead from s to s', all get their share.
    """
    return stop_gradient(net.sample(beside(batch.expert_s, batch.expert_s_next), key))
