"""LobsDICE (Kim et al., 2022, arXiv:2202.13536): offline learning from observation.

Among the stationary distributions d of the environment, find the one whose state pairs look most
like the expert's and that stays near the offline data,

    max_d  -KL(d(s,s') ‖ d^E(s,s')) - α KL(d(s,a) ‖ d^I(s,a)).

Its Lagrange dual has one unknown, ν(s), which gives the weights w = d/d^I. The policy is learned by
behaviour cloning with these weights. All three networks are trained jointly, without target
networks (algorithm 2 of the paper).

    paper        here          meaning
    c(s,s')      σ(nets.r)     the probability that a pair is the expert's
    r(s,s')      r             log d^E(s,s') / d^I(s,s'), bounded
    ν(s)         nets.nu       multiplier of the flow constraint at s
    A_ν(s,s')    e             r(s,s') + γ ν(s') - ν(s)
    w̃_ν          w             d/d^I ∝ exp(A_ν / (1+α)), self-normalised in the batch
"""

from typing import ClassVar

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, add_penalties, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, pairs
from lobsdice.algorithms.dice import Dice, Nets, make_nets
from lobsdice.algorithms.discriminator import discrimination, ratio_loss
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual, log_weights, residual, weights
from lobsdice.equations.expectations import mean


@register
@hyperparameters
class LobsDICE(Dice):
    """Hyperparameters of LobsDICE. The defaults are the paper's for MuJoCo, unless marked."""

    summary: ClassVar = "Match the expert's state transitions (the paper)."
    citation: ClassVar = "Kim et al. 2022, arXiv:2202.13536"
    needs: ClassVar = STATE_PAIRS

    alpha: float = at_least(0, default=0.1)
    """Weight of staying near the offline data."""
    pretrain: int = at_least(0, default=0)
    """Steps in which only the discriminator learns; it is frozen afterwards. 0: all jointly."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        return make_nets(key, 2 * state_size, state_size, space, self.width)

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        s, a, s_next = batch.offline
        expert, offline = pairs(batch.expert), pairs(batch.offline)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_init, nu, nu_next = at(nets.nu, batch.init, s, s_next)
        e = residual(r, nu, nu_next, self.gamma)
        nu_loss = dual(nu_init, e, gamma=self.gamma, alpha=self.alpha)

        w = stop_gradient(weights(e, alpha=self.alpha))
        policy_loss = -mean(w * nets.policy.log_prob(s, a))

        losses = {"ratio_loss": r_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        return add_penalties(losses, self.penalties(nets, batch, expert, offline, key), penalised)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        return log_weights(self.advantages(nets, rows, pairs(rows)), alpha=self.alpha)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return discrimination(nets.r, pairs(batch.expert), pairs(batch.offline))

    def rates(self, step: Int[Array, ""]) -> Nets:
        together = super().rates(step)
        if not self.pretrain:
            return together
        alone = jnp.where(step < self.pretrain, 1.0, 0.0)
        later = 1 - alone
        return Nets(alone * together.r, later * together.nu, later * together.policy)
