"""The inverse dynamics model p(a|s,s'), which fills in actions that were not recorded.

It is a policy network that sees state pairs instead of states. It is trained by maximum likelihood
on the offline data. Its errors on held-out rows, and on labelled demonstrations if there are any,
show how far its actions can be trusted. It learns nothing from the labels.
"""

from typing import Any

from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Metrics
from lobsdice.algorithms.batch import Batch, pairs
from lobsdice.algorithms.networks import PolicyNet, make_policy, without
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.expectations import mean


def make_inverse(key: Key[Array, ""], state_size: int, space: ActionSpace, width: int) -> PolicyNet:
    """A fresh model: Gaussian (after tanh) for a box of actions, categorical for a finite set."""
    return make_policy(key, 2 * state_size, space, width)


def inverse_loss(net: Any, batch: Batch) -> Float[Array, ""]:
    """-E_{d^I}[log p(a|s,s')]."""
    return -mean(net.log_prob(pairs(batch.offline), batch.offline.a))


def inverse_errors(net: Any, batch: Batch) -> Metrics:
    """The distance of the model's likeliest actions from the true ones."""

    def error(rows: Transitions) -> Float[Array, ""]:
        return mean(net.error(pairs(rows), rows.a))

    errors = {"inverse_error": error(batch.offline)}
    if batch.labelled is not None:
        errors["inverse_expert_error"] = error(batch.labelled)
    return errors


def label_expert(net: Any, batch: Batch, key: Key[Array, ""]) -> Transitions:
    """The expert's pairs with actions drawn from the model as it stands, held fixed.

    Actions are drawn, not the likeliest, so that all that lead from s to s' get their share.
    """
    s, s_next = batch.expert
    a = stop_gradient(net.sample(pairs(batch.expert), key))
    if batch.expert_ended is not None:
        a = without(a, batch.expert_ended)
    return Transitions(s, a, s_next)
