"""What actor-critic algorithms share: twin critics Q(s,a) and the targets that follow them.

The policy's own actions are dealt with by its `expect`: one differentiable sample of a continuous
action, or the sum over all discrete ones.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.discriminator import beside
from lobsdice.duals import Number, Values
from lobsdice.networks import Features, Scalar, feature_size
from lobsdice.spaces import ActionSpace


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
    size = state_size + feature_size(space)
    return Twins(*(Scalar(k, size, width) for k in jax.random.split(key)))


def fixed(net: Any) -> Any:
    """The network with its weights held fixed; what it is given may still be differentiated."""
    return stop_gradient(net)


def follow(target: Any, net: Any, rate: Number) -> Any:
    """The target moved by `rate` of its way towards the network (Polyak averaging)."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, net)
