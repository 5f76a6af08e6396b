"""RCE (Eysenbach et al., 2021, arXiv:2103.12656): recursive classification of examples.

The expert's states are examples of success. A classifier C(s,a) learns whether success will come,
at a geometrically distributed later time; its odds obey a Bellman equation,

    C/(1-C) (s,a) = (1-γ) d^E(s) π(a|s) / d^I(s,a) + γ E_{s', a'~π}[w(s',a')],   w = C/(1-C),

which is the minimum of a cross-entropy, with targets y = γw / (1+γw) and weights 1 + γw on data,

    min_C  (1-γ) E_{s*~d^E, a~π}[-log C(s*,a)] + E_{d^I}[(1+γw) CE(C(s,a), y)].

The policy seeks success and, being offline, stays near the data (TD3+BC, Fujimoto and Gu 2021),

    max_π  λ / E[C] · E_{d^I, a~π}[C(s,a)] - E_{d^I}[distance of π(s) and the action in the data].

    paper          here            meaning
    s*             batch.expert_s  examples of success
    C_θ(s,a)       σ(nets.critic)  two classifiers; the networks give logits
                   nets.target     the same, following slowly
    w^(t)          w               odds of success from (s',a'), of the targets' least, held fixed
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.nn import sigmoid, softplus
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Batch, Metrics, hyperparameters
from lobsdice.algorithms.critics import ActorCritic, Nets, Twins
from lobsdice.algorithms.discriminator import beside
from lobsdice.algorithms.networks import Categorical, PolicyNet
from lobsdice.equations.duals import Number, Values
from lobsdice.equations.expectations import mean

#: Odds stay below its inverse, as in the offline port: they must not be infinite.
ODDS_FLOOR = 1e-5


def odds(logit: Values) -> Values:
    """C / (1 - C), bounded."""
    return sigmoid(logit) / (sigmoid(-logit) + ODDS_FLOOR)


def recursion_loss(logit: Values, w: Values, gamma: Number) -> Values:
    """(1+γw) CE(C, γw / (1+γw)) = -γw log C - log(1-C)."""
    return gamma * w * softplus(-logit) + softplus(logit)


@hyperparameters
class RCE(ActorCritic):
    """Hyperparameters of RCE; of its offline port (in SMODICE's code) but for what is said."""

    gamma: float = 0.99
    """Discount: success is wanted after 1/(1-γ) steps or so."""
    tau: float = 0.005
    """How far the targets move towards the classifiers in each step."""
    success_weight: float = 2.5
    """λ, what success counts beside cloning the data; the larger, the less the data counts."""
    temperature: float = 1e-4
    """Weight of the policy's entropy beside the probability of success; of the official code."""
    critic_rate: float = 3e-4
    """Learning rate of the classifiers."""
    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers of every network."""

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del penalised
        k_next, k_success, k_policy = jax.random.split(key, 3)
        policy = stop_gradient(nets.policy)

        def odds_next(action, _):
            return odds(nets.target.least(batch.s_next, action))

        w = stop_gradient(policy.expect(batch.s_next, odds_next, k_next))
        critic_loss = sum(
            self._critic_loss(policy, critic, w, batch, k_success) for critic in nets.critic
        )
        policy_loss = self._policy_loss(nets.policy, stop_gradient(nets.critic), batch, k_policy)
        losses = {"critic_loss": critic_loss, "policy_loss": policy_loss}
        return critic_loss + policy_loss, losses

    def _critic_loss(
        self, policy: PolicyNet, critic: Any, w: Values, batch: Batch, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        def at_success(action, _):
            return softplus(-critic(beside(batch.expert_s, action)))

        success = policy.expect(batch.expert_s, at_success, key)
        logit = critic(beside(batch.s, policy.features(batch.a)))
        return (1 - self.gamma) * mean(success) + mean(recursion_loss(logit, w, self.gamma))

    def _policy_loss(
        self, policy: PolicyNet, critic: Twins, batch: Batch, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        def success(action, _):
            return sigmoid(critic.least(batch.s, action))

        # The same key, so the same actions in all three.
        probability = mean(policy.expect(batch.s, success, key))
        entropy = -mean(policy.expect(batch.s, lambda _, log_prob: log_prob, key))
        weight = self.success_weight / stop_gradient(probability)
        cloning = mean(cloning_error(policy, batch, key))
        return cloning - weight * (probability + self.temperature * entropy)


def cloning_error(policy: PolicyNet, batch: Batch, key: Key[Array, ""]) -> Values:
    """Squared distance of the policy's actions from the data's; -log π(a|s) where none is near."""
    if isinstance(policy, Categorical):
        return -policy.log_prob(batch.s, batch.a)

    def distance(action, _):
        return jnp.mean((action - batch.a) ** 2, axis=-1)

    return policy.expect(batch.s, distance, key)
