"""LobsDICE (Kim et al., 2022, arXiv:2202.13536): offline learning from observation.

Among the stationary distributions d of the environment, find the one whose state pairs look most
like the expert's and that stays near the offline data,

    max_d  -KL(d(s,s') ‖ d^E(s,s')) - α KL(d(s,a) ‖ d^I(s,a)).

Its Lagrange dual has one unknown, ν(s), and the policy is read off the weights w = d/d^I by
weighted behaviour cloning. Three networks are trained jointly, without target networks
(algorithm 2 of the paper).

    paper        here          meaning
    c(s,s')      σ(nets.r)     how likely a pair is the expert's
    r(s,s')      r             log d^E(s,s') / d^I(s,s'), bounded
    ν(s)         nets.nu       multiplier of the flow constraint at s
    w̃_ν          w             d/d^I ∝ exp(A_ν / (1+α)), A_ν(s,s') = r(s,s') + γ ν(s') - ν(s);
                               self-normalised in the batch
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Defaults, Labelled, Metrics, hyperparameters
from lobsdice.algorithms.dice import advantages, cloning_loss, critic_loss, slope_penalties
from lobsdice.algorithms.discriminator import beside, discrimination, pairs, ratio_loss
from lobsdice.algorithms.networks import Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, log_weights


class Nets(NamedTuple):
    r: Any
    nu: Any
    policy: Any


@hyperparameters
class LobsDICE(Defaults):
    """Hyperparameters of LobsDICE; the paper's for MuJoCo, where nothing else is said."""

    gamma: float = 0.99
    """Discount; 1 is allowed (appendix J: the same objective without its first term)."""
    alpha: float = 0.1
    """Weight of staying near the offline data."""
    ratio_penalty: float = 0.1
    """Weight of the gradient penalty on r."""
    nu_penalty: float = 1e-4
    """Weight of the squared gradient of ν."""
    ratio_floor: float = 1e-3
    """ε: the ratio d^E/d^I is held within [ε, 1/ε], nearly. Ours; see `bounded_log_ratio`."""
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
    pretrain: int = 0
    """Steps in which the discriminator learns alone, to be frozen from then on; 0: all jointly."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_nu, k_policy = jax.random.split(key, 3)
        return Nets(
            r=Scalar(k_r, 2 * state_size, self.width),
            nu=Scalar(k_nu, state_size, self.width),
            policy=make_policy(k_policy, state_size, space, self.width),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        expert, offline = pairs(batch)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_loss, w = critic_loss(nets.nu, batch, r, gamma=self.gamma, alpha=self.alpha)
        policy_loss = cloning_loss(nets.policy, batch, w)

        penalties = slope_penalties(
            self, nets, batch, key, expert=expert, offline=offline, penalised=penalised
        )
        total = r_loss + nu_loss + policy_loss + penalised * sum(penalties.values())
        losses = {"ratio_loss": r_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        return total, losses | penalties

    def log_weights(self, nets: Nets, batch: Batch | Labelled) -> Values:
        """log d/d^I at transitions, up to a constant."""
        seen = beside(batch.s, batch.s_next)
        e = advantages(nets, batch, seen, gamma=self.gamma, floor=self.ratio_floor)
        return log_weights(e, alpha=self.alpha)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return discrimination(nets.r, *pairs(batch))

    def rates(self, step: Int[Array, ""]) -> Nets:
        if not self.pretrain:
            return Nets(self.ratio_rate, self.nu_rate, self.policy_rate)
        alone = jnp.where(step < self.pretrain, 1.0, 0.0)
        later = 1 - alone
        return Nets(alone * self.ratio_rate, later * self.nu_rate, later * self.policy_rate)
