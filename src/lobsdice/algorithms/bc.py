"""Behaviour cloning of the offline data: the baseline that ignores the expert.

max_π  E_{d^I}[log π(a|s)]

or of demonstrations whose actions are known, if there are some.
"""

from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Defaults, Metrics, hyperparameters
from lobsdice.algorithms.networks import make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.expectations import mean


class Nets(NamedTuple):
    policy: Any


@hyperparameters
class BC(Defaults):
    """Hyperparameters of behaviour cloning; the defaults are those of the LobsDICE paper."""

    from_labelled: bool = False
    """Clone the labelled demonstrations instead of the offline data. Ours."""
    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers."""

    @property
    def penalty_every(self) -> int:
        return 1

    @property
    def needs_labels(self) -> bool:
        return self.from_labelled

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        return Nets(make_policy(key, state_size, space, self.width))

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        rows = batch.labelled if self.from_labelled else batch
        assert rows is not None  # the loop sees to it
        loss = -mean(nets.policy.log_prob(rows.s, rows.a))
        return loss, {"policy_loss": loss}

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.policy_rate)
