"""BCO, behavioural cloning from observation (Torabi et al., 2018, arXiv:1805.01954).

An inverse dynamics model is learned from the offline data. It fills in the actions that the
expert's demonstrations lack, and the policy clones these:

    max_p  E_{d^I}[log p(a|s,s')]
    max_π  E_{d^E}[log π(a|s)],   a ~ p(·|s,s')

Both networks are trained jointly. The policy sees nothing else of the offline data.

    paper        here            meaning
    M_θ(s,s')    nets.inverse    inverse dynamics model p(a|s,s')
    π_φ(s)       nets.policy     policy
"""

from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.acting import Acting
from lobsdice.algorithms.base import Metrics, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.inverse import inverse_errors, inverse_loss, label_expert, make_inverse
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.expectations import mean


class Nets(NamedTuple):
    inverse: Any
    policy: Any


@register
@hyperparameters
class BCO(Acting):
    """Hyperparameters of BCO. The defaults are those of the LobsDICE paper's comparison."""

    summary: ClassVar = "Clone the actions that an inverse model infers."
    citation: ClassVar = "Torabi et al. 2018, arXiv:1805.01954"
    needs: ClassVar = STATE_PAIRS

    inverse_rate: float = at_least(0, default=3e-4)
    """Learning rate of the inverse dynamics model."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_inverse, k_policy = jax.random.split(key)
        return Nets(
            inverse=make_inverse(k_inverse, state_size, space, self.width),
            policy=self.make_policy(k_policy, state_size, space),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del penalised
        model_loss = inverse_loss(nets.inverse, batch)
        s, a, _ = label_expert(nets.inverse, batch, key)
        policy_loss = -mean(nets.policy.log_prob(s, a))
        losses = {"inverse_loss": model_loss, "policy_loss": policy_loss}
        return model_loss + policy_loss, losses

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return inverse_errors(nets.inverse, batch)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.inverse_rate, self.policy_rate)
