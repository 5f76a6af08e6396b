"""Behaviour cloning of the offline data: the baseline that ignores the expert.

max_π  E_{d^I}[log π(a|s)]

With `from_labelled` it clones demonstrations whose actions are known.
"""

from typing import Any, ClassVar, NamedTuple

from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.acting import Acting
from lobsdice.algorithms.base import Metrics, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.registry import register
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.expectations import mean


class Nets(NamedTuple):
    policy: Any


@register
@hyperparameters
class BC(Acting):
    """Hyperparameters of behaviour cloning. The defaults are those of the LobsDICE paper."""

    summary: ClassVar = "Clone the behaviour in the logs."
    citation: ClassVar = "Pomerleau 1991"
    needs: ClassVar = "logs (s, a), or labelled demonstrations (s, a)"

    from_labelled: bool = False
    """Clone the labelled demonstrations instead of the offline data. Not in the paper."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""

    @property
    def needs_labels(self) -> bool:
        return self.from_labelled

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        return Nets(self.make_policy(key, state_size, space))

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        rows = batch.labelled if self.from_labelled else batch.offline
        assert rows is not None  # `Fleet` has checked it
        loss = -mean(nets.policy.log_prob(rows.s, rows.a))
        return loss, {"policy_loss": loss}

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.policy_rate)
