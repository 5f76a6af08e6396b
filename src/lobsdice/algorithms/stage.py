"""A discriminator that is trained before the policy, by the same loop as everything else.

The loop knows nothing but algorithms with a policy. Here the discriminator takes that place; nobody
acts by it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Defaults, Metrics, add_penalties, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, pairs
from lobsdice.algorithms.networks import Scalar
from lobsdice.data.prepare import Observations, Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.ratio import (
    Rows,
    between,
    gradients,
    logistic_loss,
    unit_gradient_penalty,
    unlabelled_loss,
)


class Nets(NamedTuple):
    policy: Any


@hyperparameters
class Stage(Defaults):
    """Hyperparameters of a discriminator. The defaults are TAILO's."""

    on_pairs: bool = False
    """It sees pairs (s, s'), not single states."""
    unlabelled: bool = False
    """The logs may hold rows of the expert that are not marked as such."""
    prior: float = at_least(0, default=0.2)
    """The share of such rows."""
    penalty: float = at_least(0, default=10.0)
    """Weight of the gradient penalty on the logit."""
    rate: float = at_least(0, default=3e-4)
    """Learning rate."""
    width: int = at_least(1, default=256)
    """Units in each of the two hidden layers."""
    penalty_every: int = at_least(1, default=8)
    """Apply the penalty only in each n-th step, at n times the weight."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        del space
        return Nets(Scalar(key, (2 if self.on_pairs else 1) * state_size, self.width))

    def seen(self, rows: Observations | Transitions) -> Rows:
        """The rows as the discriminator sees them."""
        return pairs(rows) if self.on_pairs else jnp.asarray(rows.s)

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        expert, offline = self.seen(batch.expert), self.seen(batch.offline)
        shown, logged = at(nets.policy, expert, offline)
        if self.unlabelled:
            loss = unlabelled_loss(shown, logged, self.prior)
        else:
            loss = logistic_loss(shown, logged)

        def penalty() -> Float[Array, ""]:
            points = between(key, expert, offline)
            return self.penalty * unit_gradient_penalty(gradients(nets.policy, points))

        return add_penalties({"ratio_loss": loss}, {"ratio_penalty": penalty}, penalised)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.rate)
