"""Twin critics Q(s,a) and the target networks that follow them, for actor-critic algorithms.

The policy's own actions are handled by its `expect`: one differentiable sample of a continuous
action, or the sum over all discrete ones.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.acting import Acting
from lobsdice.algorithms.base import at_least, hyperparameters, within
from lobsdice.algorithms.batch import beside
from lobsdice.algorithms.networks import Features, PolicyNet, Scalar, lacking
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Number, Values


class Twins(NamedTuple):
    """Two critics that start differently; their minimum avoids overestimates.

    They see the state and what was done there: an action, or a next state.
    """

    one: Any
    two: Any

    def least(self, s: Float[Array, "n state"], features: Features) -> Values:
        """The smaller value at each row."""
        seen = beside(s, features)
        return jnp.minimum(self.one(seen), self.two(seen))


def make_twins(key: Key[Array, ""], state_size: int, space: ActionSpace, width: int) -> Twins:
    """Fresh critics."""
    return twins_of(key, state_size + space.feature_size, width)


def twins_of(key: Key[Array, ""], size: int, width: int) -> Twins:
    """Fresh critics with so many inputs."""
    return Twins(*(Scalar(k, size, width) for k in jax.random.split(key)))


def taken(policy: PolicyNet, rows: Transitions, key: Key[Array, ""]) -> Features:
    """The features of the actions; of one of the policy's own where there is none.

    After an end every action leads to the same place.
    """
    own = stop_gradient(policy.features(policy.sample(rows.s, key)))
    return jnp.where(lacking(rows.a)[:, None], own, policy.features(rows.a))


def moved(target: Any, net: Any, rate: Number) -> Any:
    """The target network after a move by the share `rate` towards another (Polyak averaging)."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, net)


def follow(nets: Any, rate: Number) -> Any:
    """The networks with `target` moved towards `critic`."""
    return nets._replace(target=moved(nets.target, nets.critic, rate))


def critic_rates(rate: Number) -> dict[str, Twins]:
    """The learning rates of critics and targets; gradients do not move targets."""
    return {"critic": Twins(rate, rate), "target": Twins(0.0, 0.0)}


class Nets(NamedTuple):
    critic: Twins
    target: Twins
    policy: Any


class ValueNets(NamedTuple):
    """The networks of algorithms that learn V(s) beside the critics."""

    critic: Twins
    target: Twins
    value: Any
    policy: Any


@hyperparameters
class ActorCritic(Acting):
    """The shared part of algorithms that consist of a policy, critics and their targets."""

    goes_on: ClassVar[bool] = True

    tau: float = within(0, 1, default=0.005)
    """Share of the way that the targets move to the critics in each step."""
    critic_rate: float = at_least(0, default=3e-4)
    """Learning rate of the critics."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Any:
        k_critic, k_policy = jax.random.split(key)
        critic = make_twins(k_critic, state_size, space, self.width)
        policy = self.make_policy(k_policy, state_size, space)
        return Nets(critic=critic, target=critic, policy=policy)

    def rates(self, step: Int[Array, ""]) -> Any:
        return Nets(**critic_rates(self.critic_rate), policy=self.policy_rate)

    def after_step(self, nets: Any) -> Any:
        return follow(nets, self.tau)
