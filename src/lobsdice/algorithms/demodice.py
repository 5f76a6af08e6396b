"""DemoDICE (Kim et al., ICLR 2022, "Offline imitation learning with supplementary imperfect
demonstrations"): offline imitation of an expert whose actions are known.

Among the stationary distributions d of the environment, find the one most like the expert's that
stays near the offline data,

    max_d  -KL(d(s,a) ‖ d^E(s,a)) - α KL(d(s,a) ‖ d^I(s,a)).

It is LobsDICE with the action in the place of the next state. It trains r, ν and the policy
jointly, without target networks.

    paper        here          meaning
    c(s,a)       σ(nets.r)     the probability that a state and action are the expert's
    r(s,a)       r             log d^E(s,a) / d^I(s,a), bounded
    ν(s)         nets.nu       multiplier of the flow constraint at s
    A_ν          e             r(s,a) + γ ν(s') - ν(s)
    w̃_ν          w             d/d^I ∝ exp(A_ν / (1+α)), self-normalised in the batch
"""

from typing import ClassVar

from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Metrics, add_penalties, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, blurred, state_actions
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.dice import Dice, Nets, make_nets
from lobsdice.algorithms.discriminator import ratio_loss
from lobsdice.algorithms.registry import register
from lobsdice.data.prepare import Observations, Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual, log_weights, residual, weights
from lobsdice.equations.ratio import Rows


@register
@hyperparameters
class DemoDICE(Dice):
    """Hyperparameters of DemoDICE. The defaults are those of the LobsDICE paper's comparison."""

    summary: ClassVar = "Match the expert's states and actions."
    citation: ClassVar = "Kim et al. 2022, ICLR"
    needs: ClassVar = "labelled demonstrations (s, a); logs (s, a, s')"

    alpha: float = at_least(0, default=0.1)
    """Weight of staying near the offline data."""

    @property
    def needs_labels(self) -> bool:
        return True

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        return make_nets(self, key, state_size + space.feature_size, state_size, space)

    def seen(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> tuple[Rows, Rows]:
        batch = blurred(batch, key, self.blur)
        assert batch.labelled is not None  # `Fleet` has checked it
        return state_actions(nets.policy, batch.labelled), state_actions(nets.policy, batch.offline)

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        shown = batch.labelled
        assert shown is not None
        # The labelled demonstrations are the expert; there may be others without actions.
        batch = batch._replace(expert=Observations(shown.s, shown.s_next))
        s, s_next = batch.offline.s, batch.offline.s_next
        expert, offline = self.seen(nets, batch, key)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_init, nu, nu_next = at(nets.nu, batch.init, s, s_next)
        e = residual(r, nu, nu_next, self.gamma)
        nu_loss = dual(nu_init, e, gamma=self.gamma, alpha=self.alpha)

        policy_loss = cloning_loss(nets.policy, batch, weights(e, alpha=self.alpha))

        losses = {"ratio_loss": r_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        return add_penalties(losses, self.penalties(nets, batch, expert, offline, key), penalised)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        e = self.advantages(nets, rows, state_actions(nets.policy, rows))
        return log_weights(e, alpha=self.alpha)
