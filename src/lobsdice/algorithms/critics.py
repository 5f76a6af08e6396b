"""What actor-critic algorithms share: twin critics Q(s,a) and the targets that follow them.

The policy's own actions are dealt with by its `expect`: one differentiable sample of a continuous
action, or the sum over all discrete ones.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Defaults
from lobsdice.algorithms.discriminator import beside
from lobsdice.algorithms.networks import Features, Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Number, Values


class Twins(NamedTuple):
    """Two critics of (s, a) that start differently; `least` of them errs on the low side."""

    one: Any
    two: Any

    def both(self, s: Float[Array, "n state"], features: Features) -> tuple[Values, Values]:
        """The two values at each row."""
        seen = beside(s, features)
        return self.one(seen), self.two(seen)

    def least(self, s: Float[Array, "n state"], features: Features) -> Values:
        """The smaller value at each row."""
        return jnp.minimum(*self.both(s, features))


def make_twins(key: Key[Array, ""], state_size: int, space: ActionSpace, width: int) -> Twins:
    """Fresh critics."""
    size = state_size + space.feature_size
    return Twins(*(Scalar(k, size, width) for k in jax.random.split(key)))


def follow(target: Any, net: Any, rate: Number) -> Any:
    """The target moved by `rate` of its way towards the network (Polyak averaging)."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, net)


class Following(Defaults):
    """For algorithms in which `nets.target` follows `nets.critic` at the rate `tau`."""

    tau: float

    def after_step(self, nets: Any) -> Any:
        return nets._replace(target=follow(nets.target, nets.critic, self.tau))


class Nets(NamedTuple):
    critic: Twins
    target: Twins
    policy: Any


class ActorCritic(Following):
    """For algorithms that are a policy, critics and their targets, and nothing else."""

    critic_rate: float
    policy_rate: float
    width: int

    @property
    def penalty_every(self) -> int:
        return 1

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_critic, k_policy = jax.random.split(key)
        critic = make_twins(k_critic, state_size, space, self.width)
        policy = make_policy(k_policy, state_size, space, self.width)
        return Nets(critic=critic, target=critic, policy=policy)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(
            critic=Twins(self.critic_rate, self.critic_rate),
            target=Twins(0.0, 0.0),
            policy=self.policy_rate,
        )
