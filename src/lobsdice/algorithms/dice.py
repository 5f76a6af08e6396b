"""The shared part of algorithms with the multiplier ν(s): hyperparameters, penalties, advantages.

Each algorithm's own file has its objective, in `loss`, and log d/d^I at transitions up to a
constant, in `log_weights`.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, at
from lobsdice.algorithms.discriminator import Discriminating, Discriminator, state_critic_penalty
from lobsdice.algorithms.networks import Scalar
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, residual
from lobsdice.equations.ratio import Rows, bounded_log_ratio


class Nets(NamedTuple):
    r: Any
    nu: Any
    policy: Any


@hyperparameters
class Dice(Discriminating):
    """The hyperparameters of LobsDICE (both forms), DemoDICE, DemoDICEfO and SMODICE."""

    goes_on: ClassVar[bool] = True
    published: ClassVar[dict[str, Any]] = Discriminating.published | {"redraw": False}

    gamma: float = within(0, 1, default=0.99)
    """Discount; 1 is allowed."""
    nu_penalty: float = at_least(0, default=1e-4)
    """Weight of the squared gradient of ν."""
    nu_rate: float = at_least(0, default=3e-4)
    """Learning rate of the critic ν."""
    redraw: bool = True
    """Clone rows that are drawn by the weights of many rows. Otherwise clone all rows of a batch
    with their weights in it, as in the paper: few of them count then."""

    def penalties(
        self, nets: Any, batch: Batch, expert: Rows, offline: Rows, key: Key[Array, ""]
    ) -> dict[str, Callable[[], Float[Array, ""]]]:
        """The gradient penalties on r and ν; r tells the rows `expert` from the rows `offline`."""
        k_r, k_nu = jax.random.split(key)
        return {
            "ratio_penalty": lambda: self.weighted_ratio_penalty(nets.r, expert, offline, k_r),
            "nu_penalty": lambda: self.nu_penalty * state_critic_penalty(nets.nu, batch, k_nu),
        }

    @property
    def draws(self) -> bool:
        return self.redraw

    def log_weights(self, nets: Any, rows: Transitions) -> Values:
        """log d/d^I at transitions, up to a constant."""
        raise NotImplementedError

    def cloning_weights(self, nets: Any, rows: Transitions, *notes: Any) -> Values:
        return self.log_weights(nets, rows)

    def advantages(self, nets: Any, rows: Transitions, seen: Rows) -> Values:
        """A_ν = r + γ ν(s') - ν(s) at transitions; `seen` is the discriminator's input there."""
        r = bounded_log_ratio(nets.r(seen), self.ratio_floor)
        nu, nu_next = at(nets.nu, rows.s, rows.s_next)
        return residual(r, nu, nu_next, self.gamma)

    def rates(self, step: Int[Array, ""]) -> Any:
        return Nets(self.ratio_rate, self.nu_rate, self.policy_rate)


def make_nets(
    algorithm: Dice, key: Key[Array, ""], seen_size: int, state_size: int, space: ActionSpace
) -> Nets:
    """Fresh networks; `seen_size` is the number of inputs of the discriminator."""
    k_r, k_nu, k_policy = jax.random.split(key, 3)
    return Nets(
        r=Discriminator(k_r, seen_size, algorithm.width),
        nu=Scalar(k_nu, state_size, algorithm.width),
        policy=algorithm.make_policy(k_policy, state_size, space),
    )
