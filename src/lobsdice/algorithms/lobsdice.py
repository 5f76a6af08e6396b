"""LobsDICE (Kim et al., 2022, arXiv:2202.13536): offline learning from observation.

Among the stationary distributions d of the environment, find the one whose state pairs look most
like the expert's and that stays near the offline data,

    max_d  -KL(d(s,s') ‖ d^E(s,s')) - α KL(d(s,a) ‖ d^I(s,a)).

Its Lagrange dual has one unknown, ν(s), which gives the weights w = d/d^I. The policy is learned by
behaviour cloning with these weights. All networks are trained jointly, without target networks
(algorithm 2 of the paper).

The paper's dual has a single sample of s' in an exponential. In a noisy world that rewards luck: a
risky step that happened to end well counts as a good one. So a network q(s,a), which the paper does
not have, averages over s' first. In a deterministic world nothing changes by that.

The weights of single steps are noisy. In cloning the log weights are averaged over `stretch`
recorded steps in a row. A discriminator that generalises is less sure than the truth, so that the
weights are too flat. They are raised to a power of up to `sharpness`, as long as enough rows keep
some weight. docs/mathematics/networks.md has more on all three.

    paper        here          meaning
    c(s,s')      σ(nets.r)     the probability that a pair is the expert's
    r(s,s')      r             log d^E(s,s') / d^I(s,s'), bounded
    ν(s)         nets.nu       multiplier of the flow constraint at s
    A_ν(s,s')    e             r(s,s') + γ ν(s') - ν(s)
                 nets.q        E[r(s,s') + γ ν(s') | s,a]; then e has the value q(s,a) - ν(s)
    w̃_ν          w             d/d^I ∝ exp(e / (1+α)), sharpened and self-normalised in the batch
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, add_penalties, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch, at, pairs, state_actions
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.dice import Dice, make_nets
from lobsdice.algorithms.discriminator import ratio_loss
from lobsdice.algorithms.gradients import Directed
from lobsdice.algorithms.networks import Scalar
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import (
    Values,
    dual,
    log_weights,
    normalised,
    residual,
    sharpened,
)
from lobsdice.equations.expectations import mean


class Nets(NamedTuple):
    r: Any
    nu: Any
    q: Any
    """None if the algorithm does not average."""
    policy: Any
    target: Any = None
    """A slowly following copy of ν; None if ν learns by the gradient of the dual."""


def with_value(value: Values, e: Values) -> Values:
    """Numbers with the values of the first and the gradient of the second.

    The gradient of the dual at an average over next states is the mean of w ∂e/∂ν. There the
    average enters w alone, and a sample of s' serves for ∂e/∂ν.
    """
    return e + stop_gradient(value - e)


def averaged(
    q: Values, exponent: Callable[[Values, Values], Values], nu: Values, nu_next: Values
) -> Values:
    """e of ν(s) and ν(s'), with the value q(s,a) - ν(s)."""
    return with_value(q - nu, exponent(nu, nu_next))


@register
@hyperparameters
class LobsDICE(Directed):
    """Hyperparameters of LobsDICE. The defaults are the paper's for MuJoCo, unless marked."""

    summary: ClassVar = "Match the expert's state transitions (the paper)."
    citation: ClassVar = "Kim et al. 2022, arXiv:2202.13536"
    needs: ClassVar = STATE_PAIRS
    published: ClassVar[dict[str, Any]] = Dice.published | {
        "ratio_penalty": 0.1,
        "averaged": False,
        "sharpness": 1.0,
        "stretch": 1,
    }

    alpha: float = at_least(0, default=0.1)
    """Weight of staying near the offline data."""
    ratio_penalty: float = at_least(0, default=0.01)
    """Weight of the gradient penalty on r. The paper has 0.1, which is too much where a step
    decides between success and failure."""
    averaged: bool = True
    """Average over next states by a network q(s,a). Not in the paper, which has a single sample."""
    average_rate: float = at_least(0, default=1e-3)
    """Learning rate of q."""
    sharpness: float = within(1, 10, default=2.0)
    """Largest power of the weights with which actions are cloned. 1 is the paper's."""
    least_share: float = within(0, 1, default=0.05)
    """Sharpen the weights only as long as this share of the rows remains effective."""
    stretch: int = within(1, 1024, default=64)
    """Recorded steps in a row over which log weights are averaged before rows are drawn. 1 is the
    paper's."""
    pretrain: int = at_least(0, default=0)
    """Steps in which only the discriminator learns; it is frozen afterwards. 0: all jointly."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_q, key = jax.random.split(key)
        r, nu, policy = make_nets(self, key, 2 * state_size, state_size, space)
        q = Scalar(k_q, state_size + space.feature_size, self.width) if self.averaged else None
        return self.with_target(Nets(r, nu, q, policy))

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        s, s_next = batch.offline.s, batch.offline.s_next
        expert, offline = self.seen(nets, batch, key)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_init, nu, nu_next = at(nets.nu, batch.init, s, s_next)
        losses = {"ratio_loss": r_loss}
        exponent = partial(residual, r, gamma=self.gamma)
        if self.averaged:
            q = nets.q(state_actions(nets.policy, batch.offline))
            losses["average_loss"] = mean((q - stop_gradient(exponent(nu, nu_next) + nu)) ** 2)
            exponent = partial(averaged, q, exponent)
        e, objective = exponent(nu, nu_next), partial(dual, gamma=self.gamma, alpha=self.alpha)
        nu_loss = self.directed(objective(nu_init, e), nets, batch, exponent, objective)

        w = normalised(self.sharpened(log_weights(e, alpha=self.alpha)))
        policy_loss = cloning_loss(nets.policy, batch, w)

        losses |= {"nu_loss": nu_loss, "policy_loss": policy_loss}
        return add_penalties(losses, self.penalties(nets, batch, expert, offline, key), penalised)

    def sharpened(self, log_w: Values) -> Values:
        return sharpened(log_w, most=self.sharpness, least_share=self.least_share)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        if self.averaged:
            e = nets.q(state_actions(nets.policy, rows)) - nets.nu(rows.s)
        else:
            e = self.advantages(nets, rows, pairs(rows))
        return log_weights(e, alpha=self.alpha)

    def rates(self, step: Int[Array, ""]) -> Nets:
        rates = Nets(
            self.ratio_rate,
            self.nu_rate,
            self.average_rate if self.averaged else None,
            self.policy_rate,
            self.target_rate,
        )
        if not self.pretrain:
            return rates
        alone = jnp.where(step < self.pretrain, 1.0, 0.0)
        later = jax.tree.map(lambda rate: (1 - alone) * rate, rates)
        return later._replace(r=alone * rates.r)
