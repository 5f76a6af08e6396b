"""Behaviour cloning on the offline data: the baseline that ignores the expert.

max_π  E_{d^I}[log π(a|s)]
"""

from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Metrics, hyperparameters
from lobsdice.expectations import mean
from lobsdice.networks import make_policy
from lobsdice.spaces import ActionSpace


class Nets(NamedTuple):
    policy: Any


@hyperparameters
class BC:
    """Hyperparameters of behaviour cloning; the defaults are those of the LobsDICE paper."""

    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers."""

    @property
    def penalty_every(self) -> int:
        return 1

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        return Nets(make_policy(key, state_size, space, self.width))

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: bool
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        loss = -mean(nets.policy.log_prob(batch.s, batch.a))
        return loss, {"policy_loss": loss}

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.policy_rate)

    def after_step(self, nets: Nets) -> Nets:
        return nets
