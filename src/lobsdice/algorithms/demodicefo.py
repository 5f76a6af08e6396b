"""DemoDICEfO, DemoDICE from observation: the baseline of Kim et al. (2022, arXiv:2202.13536).

DemoDICE for an expert whose actions an inverse dynamics model fills in, d̂^E(s,a) for d^E(s,a):

    max_p  E_{d^I}[log p(a|s,s')]
    max_d  -KL(d(s,a) ‖ d̂^E(s,a)) - α KL(d(s,a) ‖ d^I(s,a)),   d̂^E(s,a) = E_{d^E}[p(a|s,s')]

All four networks are trained jointly. Each step draws the expert's actions anew.

    paper        here            meaning
    p(a|s,s')    nets.inverse    inverse dynamics model
    c(s,a)       σ(nets.r)       the probability that a state and action are the expert's
    r(s,a)       r               log d̂^E(s,a) / d^I(s,a), bounded
    ν(s)         nets.nu         multiplier of the flow constraint at s
    A_ν          e               r(s,a) + γ ν(s') - ν(s)
    w̃_ν          w               d/d^I ∝ exp(A_ν / (1+α)), self-normalised in the batch
"""

from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, add_penalties, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, blurred, state_actions
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.dice import Dice
from lobsdice.algorithms.discriminator import Discriminator, ratio_loss
from lobsdice.algorithms.inverse import inverse_errors, inverse_loss, label_expert, make_inverse
from lobsdice.algorithms.networks import Scalar
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual, log_weights, residual, weights
from lobsdice.equations.ratio import Rows


class Nets(NamedTuple):
    inverse: Any
    r: Any
    nu: Any
    policy: Any


@register
@hyperparameters
class DemoDICEfO(Dice):
    """Hyperparameters of DemoDICEfO. The defaults are the LobsDICE paper's, unless marked."""

    summary: ClassVar = "DemoDICE with actions that an inverse model infers."
    citation: ClassVar = "Kim et al. 2022, arXiv:2202.13536"
    needs: ClassVar = STATE_PAIRS

    alpha: float = at_least(0, default=0.1)
    """Weight of staying near the offline data."""
    inverse_rate: float = at_least(0, default=3e-4)
    """Learning rate of the inverse dynamics model."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_inverse, k_r, k_nu, k_policy = jax.random.split(key, 4)
        return Nets(
            inverse=make_inverse(k_inverse, state_size, space, self.width),
            r=Discriminator(k_r, state_size + space.feature_size, self.width),
            nu=Scalar(k_nu, state_size, self.width),
            policy=self.make_policy(k_policy, state_size, space),
        )

    def seen(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> tuple[Rows, Rows]:
        labelled = label_expert(nets.inverse, batch, key)
        batch = blurred(batch._replace(labelled=labelled), key, self.blur)
        assert batch.labelled is not None
        labelled = batch.labelled
        return state_actions(nets.policy, labelled), state_actions(nets.policy, batch.offline)

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        k_inverse, k_penalties = jax.random.split(key)
        s, s_next = batch.offline.s, batch.offline.s_next
        model_loss = inverse_loss(nets.inverse, batch)

        expert, offline = self.seen(nets, batch, k_inverse)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_init, nu, nu_next = at(nets.nu, batch.init, s, s_next)
        e = residual(r, nu, nu_next, self.gamma)
        nu_loss = dual(nu_init, e, gamma=self.gamma, alpha=self.alpha)

        policy_loss = cloning_loss(nets.policy, batch, weights(e, alpha=self.alpha))

        losses = {"inverse_loss": model_loss, "ratio_loss": r_loss}
        losses |= {"nu_loss": nu_loss, "policy_loss": policy_loss}
        penalties = self.penalties(nets, batch, expert, offline, k_penalties)
        return add_penalties(losses, penalties, penalised)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        e = self.advantages(nets, rows, state_actions(nets.policy, rows))
        return log_weights(e, alpha=self.alpha)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return inverse_errors(nets.inverse, batch) | super().diagnose(nets, batch, key)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.inverse_rate, *super().rates(step))
