"""IQL, implicit Q-learning (Kostrikov et al., 2022, arXiv:2110.06169), with rewards of any kind.

It never asks for the value of an action that is not in the data. V is an upper expectile of Q over
the actions that were taken, Q learns from V at the next state, and the policy clones the actions
that were better than expected:

    min_V  E_{d^I}[L_τ(Q̄(s,a) - V(s))],   L_τ(x) = |τ - 1(x < 0)| x²
    min_Q  E_{d^I}[(r + γ m V(s') - Q(s,a))²]
    max_π  E_{d^I}[min(exp(β (Q̄(s,a) - V(s))), 100) log π(a|s)]

    paper       here            meaning
    Q_θ         nets.critic     two critics
    Q_θ̂         nets.target     slowly following copies; Q̄ is the smaller of the two
    V_ψ         nets.value      upper expectile of Q̄
    m           1 - ended       0 where the episode terminated
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, at, beside
from lobsdice.algorithms.critics import ValueNets, critic_rates, follow, make_twins
from lobsdice.algorithms.networks import Scalar
from lobsdice.algorithms.registry import register
from lobsdice.algorithms.scored import Scored, Worth
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values
from lobsdice.equations.expectations import mean
from lobsdice.equations.iql import advantage_weights, bellman_target, expectile_loss
from lobsdice.equations.rewards import SPAN, return_span
from lobsdice.errors import LobsDICEError
from lobsdice.rewards.scores import Layout, Scores

#: Returns that differ by less are equal.
LEAST_SPAN = 1e-6


@register
@hyperparameters
class IQL(Scored):
    """Hyperparameters of IQL. The defaults are those of its paper for locomotion, unless marked."""

    summary: ClassVar = "Implicit Q-learning, with recorded rewards or any other."
    citation: ClassVar = "Kostrikov et al. 2022, arXiv:2110.06169"
    needs: ClassVar = "logs (s, a, s', r); or demonstrations (s, s'), for other rewards"

    gamma: float = within(0, 1, default=0.99)
    """Discount."""
    expectile: float = within(0, 1, default=0.7)
    """τ: 0.5 is the mean over the actions in the data, 1 the best of them."""
    inverse_temperature: float = at_least(0, default=3.0)
    """β: how much better actions are preferred in cloning."""
    rescale: bool = False
    """Scale rewards so that the returns of the logged episodes span 1000."""
    absorb: bool = False
    """After an end its state repeats for ever, with its reward. Otherwise nothing follows, which
    makes an end bad if rewards are positive. Not in the paper."""
    tau: float = within(0, 1, default=0.005)
    """Share of the way that the targets move to the critics in each step."""
    critic_rate: float = at_least(0, default=3e-4)
    """Learning rate of the critics and of V."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""

    @property
    def after_an_end(self) -> str | None:
        if self.absorb:
            return "after an end its state repeats for ever"
        return "nothing follows an end, so that ends are avoided if rewards are positive (--absorb)"

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> ValueNets:
        k_critic, k_value, k_policy = jax.random.split(key, 3)
        critic = make_twins(k_critic, state_size, space, self.width)
        value = Scalar(k_value, state_size, self.width)
        return ValueNets(critic, critic, value, self.make_policy(k_policy, state_size, space))

    def notes(self, scores: Scores, layout: Layout) -> Worth:
        if self.absorb and self.gamma >= 1:
            raise LobsDICEError("with gamma = 1, ends that repeat for ever are worth too much")
        found = self._scaled(scores, layout)
        if not self.absorb:
            return found
        # Nothing ends then. So a constant on all rewards changes no advantage. Around zero, values
        # are learned sooner: an end, whose value is known at once, does not look good until then.
        centre = jnp.mean(found.reward)
        return found._replace(reward=found.reward - centre, beyond=found.beyond - centre)

    def _scaled(self, scores: Scores, layout: Layout) -> Worth:
        found = self.worth(scores, layout)
        if not self.rescale:
            return found
        span = return_span(found.reward, found.last)
        # Episodes of equal return, or a single one, give no scale.
        factor = jnp.where(span > LEAST_SPAN, SPAN / jnp.maximum(span, LEAST_SPAN), 1.0)
        return found._replace(reward=factor * found.reward, beyond=factor * found.beyond)

    def shown(self, scores: Scores, layout: Layout) -> Values:
        return self._scaled(scores, layout).reward

    def loss(
        self, nets: ValueNets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        rows, worth = batch.offline, batch.notes
        action = nets.policy.features(rows.a)
        q = nets.target.least(rows.s, action)
        v, v_next = at(nets.value, rows.s, rows.s_next)
        value_loss = mean(expectile_loss(stop_gradient(q) - v, self.expectile))

        w = stop_gradient(advantage_weights(q - v, self.inverse_temperature))
        policy_loss = -mean(w * nets.policy.log_prob(rows.s, rows.a))

        y = stop_gradient(self._target(worth, v_next))
        critic_loss = sum(mean((critic(beside(rows.s, action)) - y) ** 2) for critic in nets.critic)
        losses = {"value_loss": value_loss, "policy_loss": policy_loss, "critic_loss": critic_loss}
        return value_loss + policy_loss + critic_loss, losses

    def _target(self, worth: Worth, v_next: Values) -> Values:
        """r + γ V(s'); after an end nothing, or with `absorb` the end's reward for ever."""
        y = bellman_target(worth.reward, v_next, 1.0 - worth.ended, self.gamma)
        if not self.absorb:
            return y
        for_ever = self.gamma / (1 - self.gamma) * worth.beyond
        return y + jnp.where(worth.ended, for_ever, 0.0)

    def after_step(self, nets: ValueNets) -> ValueNets:
        return follow(nets, self.tau)

    def rates(self, step: Int[Array, ""]) -> ValueNets:
        return ValueNets(
            **critic_rates(self.critic_rate), value=self.critic_rate, policy=self.policy_rate
        )
