"""DemoDICE (Kim et al., ICLR 2022, "Offline imitation learning with supplementary imperfect
demonstrations"): offline imitation of an expert whose actions are known.

Among the stationary distributions d of the environment, find the one most like the expert's that
stays near the offline data,

    max_d  -KL(d(s,a) ‖ d^E(s,a)) - α KL(d(s,a) ‖ d^I(s,a)).

It is LobsDICE with the action in the place of the next state, and trains as that does: r, ν and the
policy jointly, without target networks.

    paper        here          meaning
    c(s,a)       σ(nets.r)     how likely a state and action are the expert's
    r(s,a)       r             log d^E(s,a) / d^I(s,a), bounded
    ν(s)         nets.nu       multiplier of the flow constraint at s
    w̃_ν          w             d/d^I ∝ exp(A_ν / (1+α)), A_ν = r(s,a) + γ ν(s') - ν(s);
                               self-normalised in the batch
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Defaults, Labelled, Metrics, hyperparameters
from lobsdice.algorithms.dice import advantages, cloning_loss, critic_loss, slope_penalties
from lobsdice.algorithms.discriminator import beside, discrimination, ratio_loss
from lobsdice.algorithms.networks import Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, log_weights
from lobsdice.equations.ratio import Rows


class Nets(NamedTuple):
    r: Any
    nu: Any
    policy: Any


@hyperparameters
class DemoDICE(Defaults):
    """Hyperparameters of DemoDICE; the defaults are those of the LobsDICE paper's comparison."""

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

    @property
    def needs_labels(self) -> bool:
        return True

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_nu, k_policy = jax.random.split(key, 3)
        return Nets(
            r=Scalar(k_r, state_size + space.feature_size, self.width),
            nu=Scalar(k_nu, state_size, self.width),
            policy=make_policy(k_policy, state_size, space, self.width),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        shown = batch.labelled
        assert shown is not None  # the loop sees to it
        # The labelled demonstrations are the expert; there may be others without actions.
        batch = batch._replace(expert_s=shown.s, expert_s_next=shown.s_next)
        expert, offline = self._seen(nets, shown), self._seen(nets, batch)
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
        seen = self._seen(nets, batch)
        e = advantages(nets, batch, seen, gamma=self.gamma, floor=self.ratio_floor)
        return log_weights(e, alpha=self.alpha)

    def _seen(self, nets: Nets, rows: Batch | Labelled) -> Rows:
        """What the discriminator looks at: states and actions."""
        return beside(rows.s, nets.policy.features(rows.a))

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        assert batch.labelled is not None
        return discrimination(nets.r, self._seen(nets, batch.labelled), self._seen(nets, batch))

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.ratio_rate, self.nu_rate, self.policy_rate)
