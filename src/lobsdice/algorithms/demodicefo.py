"""DemoDICEfO, DemoDICE from observation: the baseline of Kim et al. (2022, arXiv:2202.13536).

DemoDICE for an expert whose actions an inverse dynamics model fills in, d̂^E(s,a) for d^E(s,a):

    max_p  E_{d^I}[log p(a|s,s')]
    max_d  -KL(d(s,a) ‖ d̂^E(s,a)) - α KL(d(s,a) ‖ d^I(s,a)),   d̂^E(s,a) = E_{d^E}[p(a|s,s')]

All four networks are trained jointly; each step draws the expert's actions anew.

    paper        here            meaning
    p(a|s,s')    nets.inverse    inverse dynamics model
    c(s,a)       σ(nets.r)       how likely a state and action are the expert's
    r(s,a)       r               log d̂^E(s,a) / d^I(s,a), bounded
    ν(s)         nets.nu         multiplier of the flow constraint at s
    w̃_ν          w               d/d^I ∝ exp(A_ν / (1+α)), A_ν = r(s,a) + γ ν(s') - ν(s);
                                 self-normalised in the batch
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Defaults, Labelled, Metrics, hyperparameters
from lobsdice.algorithms.dice import advantages, cloning_loss, critic_loss, slope_penalties
from lobsdice.algorithms.discriminator import beside, discrimination, ratio_loss
from lobsdice.algorithms.inverse import (
    infer_expert_actions,
    inverse_errors,
    inverse_loss,
    make_inverse,
)
from lobsdice.algorithms.networks import Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, log_weights
from lobsdice.equations.ratio import Rows


class Nets(NamedTuple):
    inverse: Any
    r: Any
    nu: Any
    policy: Any


@hyperparameters
class DemoDICEfO(Defaults):
    """Hyperparameters of DemoDICEfO; the LobsDICE paper's, where nothing else is said."""

    gamma: float = 0.99
    """Discount; 1 is allowed."""
    alpha: float = 0.1
    """Weight of staying near the offline data."""
    ratio_penalty: float = 0.1
    """Weight of the gradient penalty on r."""
    nu_penalty: float = 1e-4
    """Weight of the squared gradient of ν."""
    ratio_floor: float = 1e-3
    """ε: the ratio d^E/d^I is held within [ε, 1/ε], nearly. Ours; see `bounded_log_ratio`."""
    inverse_rate: float = 3e-4
    """Learning rate of the inverse dynamics model."""
    ratio_rate: float = 3e-4
    """Learning rate of the discriminator."""
    nu_rate: float = 3e-4
    """Learning rate of the critic ν."""
    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers of every network."""
    penalty_every: int = 8
    """Apply both penalties in each 8th step, at 8 times the weight. Ours: it halves the cost."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_inverse, k_r, k_nu, k_policy = jax.random.split(key, 4)
        return Nets(
            inverse=make_inverse(k_inverse, state_size, space, self.width),
            r=Scalar(k_r, state_size + space.feature_size, self.width),
            nu=Scalar(k_nu, state_size, self.width),
            policy=make_policy(k_policy, state_size, space, self.width),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        k_inverse, k_penalties = jax.random.split(key)
        model_loss = inverse_loss(nets.inverse, batch)

        expert, offline = self._told_apart(nets, batch, k_inverse)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_loss, w = critic_loss(nets.nu, batch, r, gamma=self.gamma, alpha=self.alpha)
        policy_loss = cloning_loss(nets.policy, batch, w)

        penalties = slope_penalties(
            self, nets, batch, k_penalties, expert=expert, offline=offline, penalised=penalised
        )
        total = model_loss + r_loss + nu_loss + policy_loss
        total = total + penalised * sum(penalties.values())
        losses = {"ratio_loss": r_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        return total, {"inverse_loss": model_loss} | losses | penalties

    def _told_apart(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> tuple[Rows, Rows]:
        """States and actions: the expert's, as the model infers them, and the offline data's."""
        inferred = infer_expert_actions(nets.inverse, batch, key)
        expert = beside(batch.expert_s, nets.policy.features(inferred))
        return expert, beside(batch.s, nets.policy.features(batch.a))

    def log_weights(self, nets: Nets, batch: Batch | Labelled) -> Values:
        """log d/d^I at transitions, up to a constant."""
        seen = beside(batch.s, nets.policy.features(batch.a))
        e = advantages(nets, batch, seen, gamma=self.gamma, floor=self.ratio_floor)
        return log_weights(e, alpha=self.alpha)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        told_apart = discrimination(nets.r, *self._told_apart(nets, batch, key))
        return inverse_errors(nets.inverse, batch) | told_apart

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.inverse_rate, self.ratio_rate, self.nu_rate, self.policy_rate)
