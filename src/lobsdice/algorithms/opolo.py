"""OPOLO (Zhu et al., 2020, arXiv:2102.13185): off-policy learning from observation.

KL(d(s,s') ‖ d^E(s,s')) has an upper bound without d(s,s') under a logarithm,

    min_π  KL(d^π(s,a) ‖ d^I(s,a)) - E_{d^π}[r(s,s')],   r = log d^E(s,s') / d^I(s,s'),

tight if the environment is deterministic and injective. By DualDICE's change of variables it is a
saddle point over offline data alone, with the policy and a critic of actions,

    max_π min_Q  L = (1-γ) E_{s0, a~π}[Q(s0,a)] + log E_{d^I}[exp(e)].

    paper        here            meaning
    D(s,s')      σ(nets.r)       how likely a pair is the expert's
    r(s,s')      r               log d^E(s,s') / d^I(s,s'), bounded
    Q(s,a)       nets.critic     two critics, each of which minimises its own L
                 nets.target     the same, following slowly: what the policy ascends
    e            e               r(s,s') + γ E_{a'~π}[Q(s',a')] - Q(s,a)
    P_I(a|s,s')  nets.inverse    the inverse dynamics model, for the expert's actions
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Metrics, hyperparameters
from lobsdice.algorithms.critics import Following, Twins, make_twins
from lobsdice.algorithms.discriminator import (
    beside,
    discrimination,
    pairs,
    ratio_loss,
    ratio_penalty,
)
from lobsdice.algorithms.inverse import (
    infer_expert_actions,
    inverse_errors,
    inverse_loss,
    make_inverse,
)
from lobsdice.algorithms.networks import PolicyNet, Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual, residual
from lobsdice.equations.expectations import mean


class Nets(NamedTuple):
    r: Any
    critic: Twins
    target: Twins
    inverse: Any
    policy: Any


@hyperparameters
class OPOLO(Following):
    """Hyperparameters of OPOLO; of the official code, where nothing else is said."""

    gamma: float = 0.99
    """Discount."""
    tau: float = 0.005
    """How far the targets move towards the critics in each step."""
    cloning_weight: float = 0.1
    """Weight of cloning the actions that the inverse dynamics model infers for the expert."""
    ratio_penalty: float = 0.1
    """Weight of the gradient penalty on r; of the LobsDICE paper."""
    ratio_floor: float = 1e-3
    """ε: the ratio d^E/d^I is held within [ε, 1/ε], nearly. Ours; see `bounded_log_ratio`."""
    ratio_rate: float = 3e-4
    """Learning rate of the discriminator."""
    critic_rate: float = 3e-4
    """Learning rate of the critics."""
    inverse_rate: float = 3e-4
    """Learning rate of the inverse dynamics model."""
    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers of every network; of the LobsDICE paper."""
    penalty_every: int = 8
    """Apply the penalty in each 8th step, at 8 times the weight. Ours: it is cheaper."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_critic, k_inverse, k_policy = jax.random.split(key, 4)
        critic = make_twins(k_critic, state_size, space, self.width)
        return Nets(
            r=Scalar(k_r, 2 * state_size, self.width),
            critic=critic,
            target=critic,
            inverse=make_inverse(k_inverse, state_size, space, self.width),
            policy=make_policy(k_policy, state_size, space, self.width),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        k_critic, k_policy, k_inferred, k_penalty = jax.random.split(key, 4)
        expert, offline = pairs(batch)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        # The gradient goes through Q(s',a'), too. It vanishes where d = w d^I flows as π makes it,
        # (1-γ) p0 π + γ (what d sends on) - d = 0. With a target held fixed there the middle term
        # is gone, and the rest sums to -γ over all (s,a): Q would rise for ever.
        policy = stop_gradient(nets.policy)
        critic_loss = sum(self._objective(policy, q, r, batch, k_critic) for q in nets.critic)

        # The least of the twins is that of their objectives. L is unmoved by Q + C, so that each
        # twin has a level of its own, and their values at one (s,a) do not compare.
        targets = stop_gradient(nets.target)
        reached = [self._objective(nets.policy, q, r, batch, k_policy) for q in targets]
        policy_loss = -jnp.minimum(*reached)

        model_loss = inverse_loss(nets.inverse, batch)
        inferred = infer_expert_actions(nets.inverse, batch, k_inferred)
        cloning = -mean(nets.policy.log_prob(batch.expert_s, inferred))
        cloning_loss = self.cloning_weight * cloning

        penalty = jnp.zeros(())
        if penalised:
            penalty = ratio_penalty(nets.r, expert, offline, k_penalty, floor=self.ratio_floor)
            penalty = self.ratio_penalty * penalty
        losses = {
            "ratio_loss": r_loss,
            "critic_loss": critic_loss,
            "policy_loss": policy_loss,
            "cloning_loss": cloning_loss,
            "inverse_loss": model_loss,
        }
        total = sum(losses.values()) + penalised * penalty
        return total, losses | {"ratio_penalty": penalty}

    def _objective(
        self, policy: PolicyNet, critic: Any, r: Values, batch: Batch, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """L(π, Q) on the batch."""
        k_init, k_next = jax.random.split(key)

        def value(s, key):
            return policy.expect(s, lambda action, _: critic(beside(s, action)), key)

        q = critic(beside(batch.s, policy.features(batch.a)))
        e = residual(r, q, value(batch.s_next, k_next), self.gamma)
        return dual(value(batch.init, k_init), e, gamma=self.gamma, alpha=0.0)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return inverse_errors(nets.inverse, batch) | discrimination(nets.r, *pairs(batch))

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(
            r=self.ratio_rate,
            critic=Twins(self.critic_rate, self.critic_rate),
            target=Twins(0.0, 0.0),
            inverse=self.inverse_rate,
            policy=self.policy_rate,
        )
