"""SMODICE (Ma et al., ICML 2022, arXiv:2202.02433): offline matching of the expert's states.

Among the stationary distributions d of the environment, find the one that leads to the expert's
states and stays near the offline data,

    max_d  E_d[r(s)] - D_f(d(s,a) ‖ d^I(s,a)),   r(s) = log d^E(s) / d^I(s),

with the KL divergence or with χ²: f(w) = w log w or f(w) = (w-1)²/2. For KL the objective is a
lower bound of -KL(d(s) ‖ d^E(s)). The dual has one unknown, ν(s), and the policy is read off the
weights:

    KL   min_ν  (1-γ) E_{p0}[ν] + log E_{d^I}[exp(e)],   w ∝ exp(e)
    χ²   min_ν  (1-γ) E_{p0}[ν] + E_{d^I}[f*(e)],        w ∝ f*'(e) = max(e + 1, 0)

    paper            here          meaning
    c(s)             σ(nets.r)     how likely a state is the expert's
    R(s)             r             log d^E(s) / d^I(s), bounded
    V(s)             nets.nu       multiplier of the flow constraint at s
    R + γ V' - V     e             r(s) + γ ν(s') - ν(s)
    ξ(s,a)           w             d/d^I, self-normalised in the batch
"""

from typing import Any, NamedTuple

import jax
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Defaults, Labelled, Metrics, hyperparameters
from lobsdice.algorithms.dice import (
    advantages,
    cloning_loss,
    critic_loss,
    residuals,
    slope_penalties,
)
from lobsdice.algorithms.discriminator import discrimination, ratio_loss
from lobsdice.algorithms.networks import Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual_chi2, log_weights, log_weights_chi2, weights_chi2


class Nets(NamedTuple):
    r: Any
    nu: Any
    policy: Any


@hyperparameters
class SMODICE(Defaults):
    """Hyperparameters of SMODICE; LobsDICE's, so that a comparison compares the methods."""

    gamma: float = 0.99
    """Discount; 1 is allowed unless `chi2` is set."""
    chi2: bool = False
    """The χ² divergence instead of KL. The paper has both."""
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

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_nu, k_policy = jax.random.split(key, 3)
        return Nets(
            r=Scalar(k_r, state_size, self.width),
            nu=Scalar(k_nu, state_size, self.width),
            policy=make_policy(k_policy, state_size, space, self.width),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        expert, offline = batch.expert_s, batch.s
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_loss, w = self._critic_loss(nets.nu, batch, r)
        policy_loss = cloning_loss(nets.policy, batch, w)

        penalties = slope_penalties(
            self, nets, batch, key, expert=expert, offline=offline, penalised=penalised
        )
        total = r_loss + nu_loss + policy_loss + penalised * sum(penalties.values())
        losses = {"ratio_loss": r_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        return total, losses | penalties

    def _critic_loss(self, net: Any, batch: Batch, r: Values) -> tuple[Float[Array, ""], Values]:
        if not self.chi2:
            return critic_loss(net, batch, r, gamma=self.gamma, alpha=0.0)
        nu_init, e = residuals(net, batch, r, gamma=self.gamma)
        return dual_chi2(nu_init, e, gamma=self.gamma), stop_gradient(weights_chi2(e))

    def log_weights(self, nets: Nets, batch: Batch | Labelled) -> Values:
        """log d/d^I at transitions, up to a constant."""
        e = advantages(nets, batch, batch.s, gamma=self.gamma, floor=self.ratio_floor)
        return log_weights_chi2(e) if self.chi2 else log_weights(e, alpha=0.0)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return discrimination(nets.r, batch.expert_s, batch.s)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.ratio_rate, self.nu_rate, self.policy_rate)
