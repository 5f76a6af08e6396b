"""OptiDICE (Lee et al., ICML 2021, arXiv:2106.10783) with KL, for rewards of any kind.

Among the stationary distributions d of the environment, find the one with the largest reward that
stays near the offline data,

    max_d  E_d[r(s,s')] - α KL(d(s,a) ‖ d^I(s,a)).

Divided by α it is LobsDICE's problem with r/α in the place of the log ratio. So its dual has the
same unknown, ν(s), and the policy clones the logs with the weights that ν gives:

    min_ν  (1-γ) E_{p0}[ν] + log E_{d^I}[exp(e)],   w = d/d^I ∝ exp(e)

There is no discriminator: rewards are recorded, or found before training.

    paper        here          meaning
    R/α          r             reward of a step by α; at an end, that of the final state
    ν/α          nets.nu       multiplier of the flow constraint
    e_φ(s,a)/α   q - ν(s)      the advantage in expectation over s'; nets.q learns r + γ ν(s')
    w            w             d/d^I, self-normalised in the batch
"""

from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import (
    Metrics,
    above,
    add_penalties,
    at_least,
    hyperparameters,
    within,
)
from lobsdice.algorithms.batch import Batch, at, state_actions
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.discriminator import state_critic_penalty
from lobsdice.algorithms.lobsdice import averaged
from lobsdice.algorithms.networks import Scalar
from lobsdice.algorithms.registry import register
from lobsdice.algorithms.scored import Scored
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual, residual, weights
from lobsdice.equations.expectations import mean
from lobsdice.rewards.scores import Layout, Scores


class Nets(NamedTuple):
    nu: Any
    q: Any
    policy: Any


@register
@hyperparameters
class OptiDICE(Scored):
    """Hyperparameters of OptiDICE. Those that LobsDICE has too are LobsDICE's."""

    goes_on: ClassVar[bool] = True
    summary: ClassVar = "The critic of LobsDICE, with recorded rewards or any other."
    citation: ClassVar = "Lee et al. 2021, arXiv:2106.10783"
    needs: ClassVar = "logs (s, a, s', r); or demonstrations (s, s'), for other rewards"

    gamma: float = within(0, 1, default=0.99)
    """Discount; 1 is allowed."""
    alpha: float = above(0, default=0.1)
    """Weight of staying near the offline data. Larger than 0."""
    nu_penalty: float = at_least(0, default=1e-4)
    """Weight of the squared gradient of ν."""
    nu_rate: float = at_least(0, default=3e-4)
    """Learning rate of the critic ν."""
    average_rate: float = at_least(0, default=1e-3)
    """Learning rate of q."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""
    redraw: bool = True
    """Clone rows that are drawn by the weights of many rows. Otherwise clone all rows of a batch
    with their weights in it, as published: few of them count then."""
    refresh_every: int = at_least(1, default=128)
    """Steps between two draws of the rows to clone."""
    penalty_every: int = at_least(1, default=8)
    """Apply the penalty only in each n-th step, at n times the weight. Not in the paper."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_nu, k_q, k_policy = jax.random.split(key, 3)
        return Nets(
            nu=Scalar(k_nu, state_size, self.width),
            q=Scalar(k_q, state_size + space.feature_size, self.width),
            policy=self.make_policy(k_policy, state_size, space),
        )

    def notes(self, scores: Scores, layout: Layout) -> Values:
        """r/α of each logged step, and then of each end."""
        found = self.worth(scores, layout)
        return jnp.concatenate([found.reward, found.beyond[layout.ended]]) / self.alpha

    @property
    def draws(self) -> bool:
        return self.redraw

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        nu_init, nu, nu_next = at(nets.nu, batch.init, batch.offline.s, batch.offline.s_next)
        exponent = partial(residual, batch.notes, gamma=self.gamma)
        q = nets.q(state_actions(nets.policy, batch.offline))
        average_loss = mean((q - stop_gradient(exponent(nu, nu_next) + nu)) ** 2)

        e = averaged(q, exponent, nu, nu_next)
        nu_loss = dual(nu_init, e, gamma=self.gamma, alpha=0.0)
        policy_loss = cloning_loss(nets.policy, batch, weights(e, alpha=0.0))

        losses = {"average_loss": average_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        penalty = partial(state_critic_penalty, nets.nu, batch, key)
        return add_penalties(losses, {"nu_penalty": lambda: self.nu_penalty * penalty()}, penalised)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        """log d/d^I at transitions, up to a constant."""
        return nets.q(state_actions(nets.policy, rows)) - nets.nu(rows.s)

    def cloning_weights(self, nets: Nets, rows: Transitions, *notes: Values) -> Values:
        return self.log_weights(nets, rows)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.nu_rate, self.average_rate, self.policy_rate)
