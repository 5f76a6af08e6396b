"""OPOLO (Zhu et al., 2020, arXiv:2102.13185): off-policy learning from observation.

KL(d(s,s') ‖ d^E(s,s')) has an upper bound without d(s,s') under a logarithm,

    min_π  KL(d^π(s,a) ‖ d^I(s,a)) - E_{d^π}[r(s,s')],   r = log d^E(s,s') / d^I(s,s').

It is tight if the environment is deterministic and injective. DualDICE's change of variables turns
it into a saddle point over offline data alone, with the policy and a critic of actions,

    max_π min_Q  L = (1-γ) E_{s0, a~π}[Q(s0,a)] + log E_{d^I}[exp(e)].

    paper        here            meaning
    D(s,s')      σ(nets.r)       the probability that a pair is the expert's
    r(s,s')      r               log d^E(s,s') / d^I(s,s'), bounded
    Q(s,a)       nets.critic     two critics, each of which minimises its own L
                 nets.target     slowly following copies, which the policy ascends
    e            e               r(s,s') + γ E_{a'~π}[Q(s',a')] - Q(s,a)
    P_I(a|s,s')  nets.inverse    inverse dynamics model, for the expert's actions
"""

from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, add_penalties, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, beside
from lobsdice.algorithms.critics import ActorCritic, Twins, critic_rates, make_twins, taken
from lobsdice.algorithms.discriminator import Discriminating, Discriminator, ratio_loss
from lobsdice.algorithms.inverse import inverse_errors, inverse_loss, label_expert, make_inverse
from lobsdice.algorithms.networks import PolicyNet
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, dual, residual
from lobsdice.equations.expectations import mean


class Nets(NamedTuple):
    r: Any
    critic: Twins
    target: Twins
    inverse: Any
    policy: Any


@register
@hyperparameters
class OPOLO(Discriminating, ActorCritic):
    """Hyperparameters of OPOLO: the official code's, but LobsDICE's for r and the width."""

    summary: ClassVar = "Match the expert's state transitions, by a bound and a saddle point."
    citation: ClassVar = "Zhu et al. 2020, arXiv:2102.13185"
    needs: ClassVar = STATE_PAIRS

    gamma: float = within(0, 1, default=0.99)
    """Discount."""
    cloning_weight: float = at_least(0, default=0.1)
    """Weight of cloning the actions that the inverse dynamics model infers for the expert."""
    inverse_rate: float = at_least(0, default=3e-4)
    """Learning rate of the inverse dynamics model."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_critic, k_inverse, k_policy = jax.random.split(key, 4)
        critic = make_twins(k_critic, state_size, space, self.width)
        inverse = make_inverse(k_inverse, state_size, space, self.width)
        policy = self.make_policy(k_policy, state_size, space)
        return Nets(Discriminator(k_r, 2 * state_size, self.width), critic, critic, inverse, policy)

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        k_critic, k_policy, k_inferred, k_penalty = jax.random.split(key, 4)
        expert, offline = self.seen(nets, batch, key)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        # The gradient goes through Q(s',a') too. It is zero if d = w d^I is the occupancy of π:
        # (1-γ) p0 π + γ (inflow from d) - d = 0. If Q(s',a') were held fixed, the inflow would be
        # missing, and the rest sums to -γ over all (s,a): Q would rise for ever.
        policy = stop_gradient(nets.policy)
        critic_loss = sum(self._objective(policy, q, r, batch, k_critic) for q in nets.critic)

        # The minimum is over the two objectives, not over values at each row: L is the same for Q
        # and Q + C, so each twin has a level of its own.
        targets = stop_gradient(nets.target)
        reached = [self._objective(nets.policy, q, r, batch, k_policy) for q in targets]
        s, a, _ = label_expert(nets.inverse, batch, k_inferred)
        losses = {
            "ratio_loss": r_loss,
            "critic_loss": critic_loss,
            "policy_loss": -jnp.minimum(*reached),
            "cloning_loss": self.cloning_weight * -mean(nets.policy.log_prob(s, a)),
            "inverse_loss": inverse_loss(nets.inverse, batch),
        }
        penalty = partial(self.weighted_ratio_penalty, nets.r, expert, offline, k_penalty)
        return add_penalties(losses, {"ratio_penalty": penalty}, penalised)

    def _objective(
        self, policy: PolicyNet, critic: Any, r: Values, batch: Batch, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """L(π, Q) on the batch."""
        k_init, k_next, k_taken = jax.random.split(key, 3)

        def value(s, key):
            return policy.expect(s, lambda action, _: critic(beside(s, action)), key)

        rows = batch.offline
        q = critic(beside(rows.s, taken(policy, rows, k_taken)))
        e = residual(r, q, value(rows.s_next, k_next), self.gamma)
        return dual(value(batch.init, k_init), e, gamma=self.gamma, alpha=0.0)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return inverse_errors(nets.inverse, batch) | super().diagnose(nets, batch, key)

    def rates(self, step: Int[Array, ""]) -> Nets:
        critics = critic_rates(self.critic_rate)
        return Nets(self.ratio_rate, **critics, inverse=self.inverse_rate, policy=self.policy_rate)
