"""IQ-Learn (Garg et al., 2021, arXiv:2106.12142): inverse soft Q-learning, here offline.

A soft Q-function stands for a reward, Q(s,a) - γ V(s'), and for the best policy under it,
π ∝ exp(Q/τ). It should make the expert's reward large and the policy's small,

    max_Q  E_{d^E}[φ(Q(s,a) - γ V(s'))] - E_{d^E}[V(s) - γ V(s')],   φ(x) = x - x²/(4α).

The second term, on the expert's pairs, is (1-γ) E_{p0}[V] ("value_expert" in the official code).
φ is that of a χ² divergence. The policy follows by soft policy improvement at the expert's states.
Without labels the actions at these states are the policy's own. The linear terms then cancel, and
the rest contains nothing about the expert; see docs/algorithms/iqlearn.md.

    paper           here            meaning
    Q(s,a)          nets.critic     two soft critics
                    nets.target     slowly following copies
    V^π(s)          v               E_{a~π}[Q(s,a) - τ log π(a|s)]
    γ V(s')         y               the same at s', of the smaller target, held fixed
    (T^π Q)(s,a)    q - y           the reward that Q stands for
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Metrics, above, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, beside
from lobsdice.algorithms.critics import ActorCritic, Nets, taken
from lobsdice.algorithms.networks import Features, PolicyNet
from lobsdice.algorithms.registry import register
from lobsdice.data.prepare import Observations, Transitions
from lobsdice.equations.duals import Number, Values
from lobsdice.equations.expectations import mean

States = Float[Array, "n state"]
Critic = Callable[[States, Features], Values]


def phi(reward: Values, alpha: Number) -> Values:
    """φ(x) = x - x²/(4α), the conjugate of a χ² divergence."""
    return reward - reward**2 / (4 * alpha)


@register
@hyperparameters
class IQLearn(ActorCritic):
    """Hyperparameters of IQ-Learn. The defaults are those of the official code, unless marked."""

    summary: ClassVar = "Inverse soft Q-learning; needs labels to learn anything of the expert."
    citation: ClassVar = "Garg et al. 2021, arXiv:2106.12142"
    needs: ClassVar = "labelled demonstrations (s, a, s'), or demonstrations (s, s')"

    gamma: float = within(0, 1, default=0.99)
    """Discount."""
    alpha: float = above(0, default=0.5)
    """The square of the reward has the weight 1/(4α)."""
    temperature: float = at_least(0, default=1e-2)
    """τ, the weight of the policy's entropy, not learned."""
    from_labelled: bool = False
    """Learn from the labelled demonstrations and their actions, as the method is meant to."""

    @property
    def needs_labels(self) -> bool:
        return self.from_labelled

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del penalised
        k_here, k_next, k_policy = jax.random.split(key, 3)
        rows = batch.labelled if self.from_labelled else batch.expert
        assert rows is not None  # `Fleet` has checked it

        policy = stop_gradient(nets.policy)
        v_next = self._value(policy, nets.target.least, rows.s_next, k_next)
        y = stop_gradient(self.gamma * v_next)
        critic_loss = sum(self._critic_loss(policy, q, rows, y, k_here) for q in nets.critic)
        v = self._value(nets.policy, stop_gradient(nets.critic).least, rows.s, k_policy)
        policy_loss = -mean(v)
        losses = {"critic_loss": critic_loss, "policy_loss": policy_loss}
        return critic_loss + policy_loss, losses

    def _critic_loss(
        self,
        policy: PolicyNet,
        critic: Any,
        rows: Observations | Transitions,
        y: Values,
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        """-E[φ(Q(s,a) - y)] + E[V(s) - y], where V is of this critic alone."""

        def q(s, action):
            return critic(beside(s, action))

        def gain(action, _):
            return phi(q(rows.s, action) - y, self.alpha)

        if isinstance(rows, Transitions):
            gains = gain(taken(policy, rows, key), None)
        else:
            gains = policy.expect(rows.s, gain, key)
        # The same key gives the same actions: terms that cancel on average cancel in each batch.
        return mean(self._value(policy, q, rows.s, key) - y) - mean(gains)

    def _value(self, policy: PolicyNet, q: Critic, s: States, key: Key[Array, ""]) -> Values:
        """V(s) = E_{a~π}[Q(s,a) - τ log π(a|s)]."""

        def soft(action, log_prob):
            return q(s, action) - self.temperature * log_prob

        return policy.expect(s, soft, key)
