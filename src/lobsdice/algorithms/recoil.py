"""ReCOIL (Sikchi, Zheng, Zhang, Niekum, ICLR 2024, arXiv:2302.08560): imitation by a score.

A critic Q scores what was done: `best` for the expert's actions, and for logged ones what follows,
less a cost for each step. V is the soft maximum of Q over the logged actions. The policy clones
logged actions that score better than V. No discriminator is needed.

    min_Q  ½ E_E[(Q(s,a) - best)²] + ½ E_I[(Q(s,a) - (γ V(s') - cost))²]
    min_V  E_I[e^z - z - 1],   z = (Q(s,a) - V(s)) / temperature
    max_π  E_I[w log π(a|s)],   w = min(exp(β (Q - V)), 100)

These are the losses of the authors' code, with the fixed aims of LS-IQ (Al-Hafez et al., 2023). The
paper's dual is another; see docs/algorithms/recoil.md.

    code        here           meaning
    Q           nets.critic    two critics; the smaller counts
                nets.target    slowly following copies, which V and the policy see
    V(s)        nets.value     soft maximum of Q over the logged actions
    200, -2     best, -cost    the expert's score, and the reward of a logged step
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, above, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, at, beside
from lobsdice.algorithms.critics import ActorCritic, ValueNets, critic_rates, taken, twins_of
from lobsdice.algorithms.networks import Features, PolicyNet, Scalar
from lobsdice.algorithms.registry import register
from lobsdice.data.prepare import Observations, Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values
from lobsdice.equations.expectations import mean
from lobsdice.equations.iql import advantage_weights, log_advantage_weights
from lobsdice.equations.recoil import logged_aim, regression_loss, scale_level, soft_maximum_loss


@hyperparameters
class Scoring(ActorCritic):
    """The shared part of ReCOIL and its state-only form: all but what the critics see."""

    gamma: float = within(0, 1, default=0.99)
    """Discount."""
    best: float = at_least(0, default=200.0)
    """The score of what the expert does."""
    cost: float = at_least(0, default=2.0)
    """The cost of a logged step. best = cost / (1-γ) makes logs without the expert score -best."""
    temperature: float = above(0, default=5.0)
    """Temperature of the soft maximum V. If scores diverge, try a larger one."""
    beta: float = at_least(0, default=3.0)
    """Inverse temperature of the weights with which logged actions are cloned."""
    value_rate: float = at_least(0, default=3e-4)
    """Learning rate of V."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> ValueNets:
        k_critic, k_value, k_policy = jax.random.split(key, 3)
        critic = twins_of(k_critic, self.seen_size(state_size, space), self.width)
        value = Scalar(k_value, state_size, self.width)
        return ValueNets(critic, critic, value, self.make_policy(k_policy, state_size, space))

    def seen_size(self, state_size: int, space: ActionSpace) -> int:
        """The number of inputs of the critics."""
        raise NotImplementedError

    def shown(self, batch: Batch) -> Observations | Transitions:
        """The expert's rows."""
        raise NotImplementedError

    def done(self, policy: PolicyNet, rows: Any, key: Key[Array, ""]) -> Features:
        """The action of each row, as critics see it beside the state."""
        raise NotImplementedError

    def loss(
        self, nets: ValueNets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del penalised
        k_shown, k_logged = jax.random.split(key)
        rows, shown = batch.offline, self.shown(batch)
        done = self.done(nets.policy, rows, k_logged)
        done_shown = self.done(nets.policy, shown, k_shown)

        q = stop_gradient(nets.target.least(rows.s, done))
        v, v_next, v_shown = at(nets.value, rows.s, rows.s_next, shown.s)
        gaps = (q - v, nets.target.least(shown.s, done_shown) - v_shown)
        z, z_shown = (gap / self.temperature for gap in gaps)
        value_loss = mean(soft_maximum_loss(z, stop_gradient(scale_level(z, z_shown))))

        def fit(critic: Any) -> Float[Array, ""]:
            scores = at(critic, beside(shown.s, done_shown), beside(rows.s, done))
            aim = logged_aim(stop_gradient(v_next), gamma=self.gamma, cost=self.cost)
            return regression_loss(*scores, best=self.best, aim=aim)

        w = stop_gradient(advantage_weights(gaps[0], self.beta))
        losses = {
            "value_loss": value_loss,
            "critic_loss": fit(nets.critic.one) + fit(nets.critic.two),
            "policy_loss": -mean(w * nets.policy.log_prob(rows.s, rows.a)),
        }
        return sum(losses.values(), jnp.zeros(())), losses

    def log_weights(self, nets: ValueNets, rows: Transitions) -> Values:
        """The log weights of cloning. They compare actions in a state, and are of no occupancy."""
        done = self.done(nets.policy, rows, jax.random.key(0))
        gap = nets.target.least(rows.s, done) - nets.value(rows.s)
        return log_advantage_weights(gap, self.beta)

    def rates(self, step: Int[Array, ""]) -> ValueNets:
        critics = critic_rates(self.critic_rate)
        return ValueNets(**critics, value=self.value_rate, policy=self.policy_rate)


@register
@hyperparameters
class ReCOIL(Scoring):
    """Hyperparameters of ReCOIL. The defaults are those of the authors' code, unless marked."""

    summary: ClassVar = "Score what the expert does; clone logged actions that score well."
    citation: ClassVar = "Sikchi et al. 2024, arXiv:2302.08560"
    needs: ClassVar = "labelled demonstrations (s, a); logs (s, a, s')"

    @property
    def needs_labels(self) -> bool:
        return True

    def seen_size(self, state_size: int, space: ActionSpace) -> int:
        return state_size + space.feature_size

    def shown(self, batch: Batch) -> Transitions:
        assert batch.labelled is not None  # `Fleet` has checked it
        return batch.labelled

    def done(self, policy: PolicyNet, rows: Any, key: Key[Array, ""]) -> Features:
        return taken(policy, rows, key)
