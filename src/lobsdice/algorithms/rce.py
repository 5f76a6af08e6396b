"""RCE (Eysenbach et al., 2021, arXiv:2103.12656): recursive classification of examples.

The expert's states are examples of success. A classifier C(s,a) learns whether success will come
at a geometrically distributed later time. Its odds obey a Bellman equation,

    C/(1-C) (s,a) = (1-γ) d^E(s) π(a|s) / d^I(s,a) + γ E_{s', a'~π}[w(s',a')],   w = C/(1-C).

That is the minimum of a cross-entropy, with targets y = γw / (1+γw) and weights 1 + γw on data,

    min_C  (1-γ) E_{s*~d^E, a~π}[-log C(s*,a)] + E_{d^I}[(1+γw) CE(C(s,a), y)].

The policy seeks success and, being offline, stays near the data (TD3+BC, Fujimoto and Gu 2021),

    max_π  λ / E[C] · E_{d^I, a~π}[C(s,a)] - E_{d^I}[distance of π(s) and the action in the data].

    paper          here             meaning
    s*             batch.expert.s   examples of success
    C_θ(s,a)       σ(nets.critic)   two classifiers; the networks give logits
                   nets.target      slowly following copies
    w^(t)          w                odds of success from (s',a'), of the smaller target, held fixed
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.nn import sigmoid, softplus
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Metrics, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, beside
from lobsdice.algorithms.critics import ActorCritic, Nets, Twins, taken
from lobsdice.algorithms.networks import Categorical, PolicyNet, lacking
from lobsdice.algorithms.registry import STATES, register
from lobsdice.data.prepare import Transitions
from lobsdice.equations.duals import Number, Values
from lobsdice.equations.expectations import mean

#: Keeps odds finite, below 1e5, as in RCE's offline port (in SMODICE's code).
ODDS_FLOOR = 1e-5


def odds(logit: Values) -> Values:
    """C / (1 - C), bounded by 1 / `ODDS_FLOOR`."""
    return sigmoid(logit) / (sigmoid(-logit) + ODDS_FLOOR)


def recursion_loss(logit: Values, w: Values, gamma: Number) -> Values:
    """(1+γw) CE(C, γw / (1+γw)) = -γw log C - log(1-C)."""
    return gamma * w * softplus(-logit) + softplus(logit)


@register
@hyperparameters
class RCE(ActorCritic):
    """Hyperparameters of RCE. The defaults are those of its offline port, unless marked."""

    summary: ClassVar = "Reach the expert's states, as examples of success."
    citation: ClassVar = "Eysenbach et al. 2021, arXiv:2103.12656"
    needs: ClassVar = STATES

    gamma: float = within(0, 1, default=0.99)
    """Discount: success is wanted after about 1/(1-γ) steps."""
    success_weight: float = at_least(0, default=2.5)
    """λ, the weight of success beside cloning the data."""
    temperature: float = at_least(0, default=1e-4)
    """Weight of the policy's entropy beside the probability of success. From the official code."""

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del penalised
        k_next, k_success, k_policy = jax.random.split(key, 3)
        policy, s_next = stop_gradient(nets.policy), batch.offline.s_next

        def odds_next(action, _):
            return odds(nets.target.least(s_next, action))

        w = stop_gradient(policy.expect(s_next, odds_next, k_next))
        critic_loss = sum(
            self._critic_loss(policy, critic, w, batch, k_success) for critic in nets.critic
        )
        critics = stop_gradient(nets.critic)
        policy_loss = self._policy_loss(nets.policy, critics, batch.offline, k_policy)
        losses = {"critic_loss": critic_loss, "policy_loss": policy_loss}
        return critic_loss + policy_loss, losses

    def _critic_loss(
        self, policy: PolicyNet, critic: Any, w: Values, batch: Batch, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        s_success, rows = batch.expert.s, batch.offline
        k_success, k_taken = jax.random.split(key)

        def at_success(action, _):
            return softplus(-critic(beside(s_success, action)))

        success = policy.expect(s_success, at_success, k_success)
        logit = critic(beside(rows.s, taken(policy, rows, k_taken)))
        return (1 - self.gamma) * mean(success) + mean(recursion_loss(logit, w, self.gamma))

    def _policy_loss(
        self, policy: PolicyNet, critic: Twins, rows: Transitions, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        def success(action, _):
            return sigmoid(critic.least(rows.s, action))

        # The same key gives the same actions in all three.
        probability = mean(policy.expect(rows.s, success, key))
        entropy = -mean(policy.expect(rows.s, lambda _, log_prob: log_prob, key))
        weight = self.success_weight / stop_gradient(probability)
        cloning = mean(cloning_error(policy, rows, key))
        return cloning - weight * (probability + self.temperature * entropy)


def cloning_error(policy: PolicyNet, rows: Transitions, key: Key[Array, ""]) -> Values:
    """The squared distance of the policy's actions from the data's; -log π(a|s) if discrete.

    It is 0 where the data has no action.
    """
    if isinstance(policy, Categorical):
        return -policy.log_prob(rows.s, rows.a)

    def distance(action, _):
        squares = (action - policy.features(rows.a)) ** 2
        return jnp.where(lacking(rows.a), 0.0, jnp.mean(squares, axis=-1))

    return policy.expect(rows.s, distance, key)
