"""IQ-Learn (Garg et al., 2021, arXiv:2106.12142): inverse soft Q-learning, here offline.

A soft Q-function stands for a reward, Q(s,a) - γ V(s'), and for its best policy, π ∝ exp(Q/τ), at
once. It should make the expert's reward large and the policy's small,

    max_Q  E_{d^E}[φ(Q(s,a) - γ V(s'))] - E_{d^E}[V(s) - γ V(s')],   φ(x) = x - x²/(4α),

where the second term, on the expert's pairs, is (1-γ) E_{p0}[V] ("value_expert" in the official
code), and φ is that of a χ² divergence. The policy follows by soft policy improvement at the
expert's states. Without labels the actions at these states are the policy's own. The linear terms
then cancel, and what is left says nothing of the expert; see docs/algorithms/iqlearn.md.

    paper           here            meaning
    Q(s,a)          nets.critic     two soft critics
                    nets.target     the same, following slowly
    V^π(s)          v               E_{a~π}[Q(s,a) - τ log π(a|s)]
    γ V(s')         y               the same at s', of the targets' least, held fixed
    (T^π Q)(s,a)    q - y           the reward that Q stands for
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Batch, Metrics, hyperparameters
from lobsdice.algorithms.critics import ActorCritic, Nets
from lobsdice.algorithms.discriminator import beside
from lobsdice.algorithms.networks import Features, PolicyNet
from lobsdice.equations.duals import Number, Values
from lobsdice.equations.expectations import mean

States = Float[Array, "n state"]
Critic = Callable[[States, Features], Values]


def phi(reward: Values, alpha: Number) -> Values:
    """φ(x) = x - x²/(4α), the conjugate of a χ² divergence."""
    return reward - reward**2 / (4 * alpha)


@hyperparameters
class IQLearn(ActorCritic):
    """Hyperparameters of IQ-Learn; of the official code, where nothing else is said."""

    gamma: float = 0.99
    """Discount."""
    alpha: float = 0.5
    """The reward's square counts 1/(4α)."""
    temperature: float = 1e-2
    """τ, the weight of the policy's entropy, not learned."""
    tau: float = 0.005
    """How far the targets move towards the critics in each step."""
    from_labelled: bool = False
    """Learn from the labelled demonstrations and their actions, as the method is meant to."""
    critic_rate: float = 3e-4
    """Learning rate of the critics."""
    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers of every network."""

    @property
    def needs_labels(self) -> bool:
        return self.from_labelled

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del penalised
        k_here, k_next, k_policy = jax.random.split(key, 3)
        s, s_next = batch.expert_s, batch.expert_s_next
        if self.from_labelled:
            assert batch.labelled is not None  # the loop sees to it
            s, s_next = batch.labelled.s, batch.labelled.s_next

        policy = stop_gradient(nets.policy)
        y = stop_gradient(self.gamma * self._value(policy, nets.target.least, s_next, k_next))
        critic_loss = sum(self._critic_loss(policy, q, s, y, batch, k_here) for q in nets.critic)
        policy_loss = -mean(self._value(nets.policy, stop_gradient(nets.critic).least, s, k_policy))
        losses = {"critic_loss": critic_loss, "policy_loss": policy_loss}
        return critic_loss + policy_loss, losses

    def _critic_loss(
        self,
        policy: PolicyNet,
        critic: Any,
        s: States,
        y: Values,
        batch: Batch,
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        """-E[φ(Q(s,a) - y)] + E[V(s) - y], with a V of this critic's own."""

        def q(s, action):
            return critic(beside(s, action))

        def gain(action, _):
            return phi(q(s, action) - y, self.alpha)

        if self.from_labelled:
            assert batch.labelled is not None
            gains = gain(policy.features(batch.labelled.a), None)
        else:
            gains = policy.expect(s, gain, key)
        # By the same key, so by the same actions: what cancels on average does so in each batch.
        return mean(self._value(policy, q, s, key) - y) - mean(gains)

    def _value(self, policy: PolicyNet, q: Critic, s: States, key: Key[Array, ""]) -> Values:
        """V(s) = E_{a~π}[Q(s,a) - τ log π(a|s)]."""

        def soft(action, log_prob):
            return q(s, action) - self.temperature * log_prob

        return policy.expect(s, soft, key)
