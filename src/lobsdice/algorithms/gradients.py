"""Three gradients for ν, which stands on both sides of e = r + γ ν(s') - ν(s).

    full         through both sides: the gradient of the dual
    semi         through ν(s) alone; ν(s') is held fixed, as in Q-learning
    orthogonal   through ν(s), and of that through ν(s') what is orthogonal to it
                 (ODICE: Mao, Xu, Zhang, Zhan, ICLR 2024, arXiv:2402.00348)

What is held fixed is a target network's. Let d(s) be the states of the weighted data, and d'(s)
the states that follow them. At a fixed point of tables

    full         (1-γ) p0 + γ d' = d                        d is an occupancy
    semi         d^I(s) = d(s)                              w = d/d^I is a ratio of policies
    orthogonal   (1-γ) p0 + γ d' - d + k (d^I - d) = 0      between both

where k ≥ 0 measures how much the two sides work against each other. Their first terms are the
gradients of (1-γ) E_{p0}[ν], E_{d^I}[ν], and the sum of the first and k times the second. ODICE has
E_{d^I}[ν] alone, with a weight to tune. The weights here are those at which constants in ν have no
effect, as in the dual. So the weights w have the mean 1 in all three.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int

from lobsdice.algorithms.base import hyperparameters, one_of
from lobsdice.algorithms.batch import Batch, at
from lobsdice.algorithms.critics import moved
from lobsdice.algorithms.dice import Dice
from lobsdice.equations.duals import InitValues, Values
from lobsdice.equations.expectations import mean

Gradient = Literal["full", "semi", "orthogonal"]
#: The share of the way that the target of ν moves in each step. ODICE's.
TARGET_RATE = 0.005
#: Keeps the projection finite where the forward gradient vanishes. DILO's.
LEAST_SQUARE = 1e-10


def with_gradient(value: Float[Array, ""], net: Any, gradient: Any) -> Float[Array, ""]:
    """A number with this value, whose gradient in the weights of the network is the given one."""
    value, gradient = stop_gradient((value, gradient))
    return value + inner(gradient, jax.tree.map(lambda x: x - stop_gradient(x), net))


def inner(x: Any, y: Any) -> Float[Array, ""]:
    """The inner product of two trees of arrays."""
    return sum(map(jnp.vdot, jax.tree.leaves(x), jax.tree.leaves(y)), jnp.zeros(()))


def overlap(forward: Any, backward: Any) -> Float[Array, ""]:
    """The multiple of `forward` in `backward`; negative if they work against each other."""
    return inner(forward, backward) / jnp.maximum(inner(forward, forward), LEAST_SQUARE)


def orthogonal_sum(forward: Any, backward: Any) -> Any:
    """The first gradient, and what of the second is orthogonal to it."""
    share = overlap(forward, backward)
    return jax.tree.map(lambda f, b: (1 - share) * f + b, forward, backward)


class Slopes(NamedTuple):
    """The parts of the gradient of ν."""

    start: Any
    """The gradient of (1-γ) E_{p0}[ν]."""
    level: Any
    """The gradient of E_{d^I}[ν]."""
    forward: Any
    """The gradient of the rest of the dual, through ν(s)."""
    backward: Any
    """The same through ν(s')."""

    def combined(self, gradient: Gradient) -> Any:
        """The gradient of this name; that of the dual itself is not made of parts."""
        if gradient == "semi":
            return jax.tree.map(jnp.add, self.level, self.forward)
        against = -overlap(self.forward, self.backward)
        rest = orthogonal_sum(self.forward, self.backward)
        return jax.tree.map(lambda x, y, z: x + against * y + z, self.start, self.level, rest)


class Nets(NamedTuple):
    r: Any
    nu: Any
    policy: Any
    target: Any = None
    """A slowly following copy of ν; None if ν learns by the gradient of the dual."""


@hyperparameters
class Directed(Dice):
    """The methods whose ν may learn by another gradient than the dual's."""

    gradient: Gradient = one_of(Gradient, default="full")
    """The gradient of ν: of the dual (full), of ν(s) alone (semi), or ODICE's (orthogonal). With
    the last two the weights are no longer those of an occupancy."""

    def with_target(self, nets: Any) -> Any:
        """Fresh networks, with a target of ν if one is needed."""
        return nets if self.gradient == "full" else nets._replace(target=nets.nu)

    def directed(
        self,
        value: Float[Array, ""],
        nets: Any,
        batch: Batch,
        exponent: Callable[[Values, Values], Values],
        objective: Callable[[InitValues, Values], Float[Array, ""]],
    ) -> Float[Array, ""]:
        """The dual, of which this is the value, with the gradient that was chosen.

        `exponent` makes e of ν(s) and ν(s'). `objective` makes the dual of ν at initial states and
        of e.
        """
        if self.gradient == "full":
            return value
        s, s_next, start = batch.offline.s, batch.offline.s_next, batch.init
        fixed, fixed_next = at(nets.target, s, s_next)
        none = jnp.zeros(len(start))

        def slope(part: Callable[[Any], Float[Array, ""]]) -> Any:
            return jax.grad(part)(stop_gradient(nets.nu))

        slopes = Slopes(
            start=slope(lambda nu: (1 - self.gamma) * mean(nu(start))),
            level=slope(lambda nu: mean(nu(s))),
            forward=slope(lambda nu: objective(none, exponent(nu(s), fixed_next))),
            backward=slope(lambda nu: objective(none, exponent(fixed, nu(s_next)))),
        )
        return with_gradient(value, nets.nu, slopes.combined(self.gradient))

    @property
    def target_rate(self) -> float | None:
        """The learning rate of the target, which gradients do not move; None if there is none."""
        return None if self.gradient == "full" else 0.0

    def rates(self, step: Int[Array, ""]) -> Any:
        return Nets(self.ratio_rate, self.nu_rate, self.policy_rate, self.target_rate)

    def after_step(self, nets: Any) -> Any:
        if self.gradient == "full":
            return nets
        return nets._replace(target=moved(nets.target, nets.nu, TARGET_RATE))
