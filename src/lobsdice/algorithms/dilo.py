"""DILO (Sikchi, Chuck, Zhang, Niekum, CoRL 2024, arXiv:2406.08805): a dual without discriminator.

A utility V(s,s') of pairs is learned from triples (s, s', s''), of the expert and of the logs,

    min_V  (1-λ) E_I[V(s,s')] + λ (β E_E[f*(y)] + (1-β) E_I[f*(y)] - (1-β) E_I[y]),
           y = γ V(s',s'') - V(s,s'),

where f* is the conjugate of χ² and β = 1/2. It is the dual of a match of the policy's pairs, mixed
with the logs', and the expert's, mixed with the logs'. The policy clones logged steps to pairs of
high utility, max_π E_I[w log π(a|s)] with w ∝ min(exp(τ V(s,s')), 100).

V stands on both sides of y. By default it learns by ODICE's orthogonal gradient (`gradients`).

    paper      here              meaning
    V          nets.critic       two utilities; the smaller counts
    V̄          nets.target       slowly following copies
    λ, η       balance, eta      weight of the residuals, and of the backward gradient
    τ          beta              inverse temperature of cloning
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Metrics, at_least, hyperparameters, one_of, within
from lobsdice.algorithms.batch import Batch, Following, at, beside, pairs
from lobsdice.algorithms.critics import ActorCritic, Nets, Twins, twins_of
from lobsdice.algorithms.gradients import Gradient, orthogonal_sum, with_gradient
from lobsdice.algorithms.registry import register
from lobsdice.data.prepare import Observations, Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.dilo import mixture_term
from lobsdice.equations.duals import Number, Values, normalised
from lobsdice.equations.expectations import mean
from lobsdice.equations.iql import log_advantage_weights
from lobsdice.equations.ratio import Rows


class Triples(NamedTuple):
    """Rows that have a third state, as two pairs."""

    here: Rows
    """(s, s')."""
    after: Rows
    """(s', s'')."""
    discount: Values
    """γ, and 0 where nothing follows."""
    p: Values
    """The probability of each row: 0 where the third state is unknown."""

    def residual(self, v: Values, v_after: Values) -> Values:
        """y = γ V(s',s'') - V(s,s')."""
        return self.discount * v_after - v


def triples(rows: Observations | Transitions, after: Following | None, gamma: Number) -> Triples:
    """The triples of rows and of what follows them."""
    assert after is not None  # the loop has looked ahead
    known = after.known.astype(rows.s.dtype)
    return Triples(
        here=pairs(rows),
        after=beside(rows.s_next, after.s),
        discount=jnp.where(after.goes_on, gamma, 0.0),
        p=known / jnp.maximum(known.sum(), 1.0),
    )


@register
@hyperparameters
class DILO(ActorCritic):
    """Hyperparameters of DILO. The defaults are those of the authors' code."""

    summary: ClassVar = "Learn a utility of state pairs from triples, without a discriminator."
    citation: ClassVar = "Sikchi et al. 2024, arXiv:2406.08805"
    needs: ClassVar = "demonstrations (s, s', s''); logs (s, a, s', s'')"
    looks_ahead: ClassVar[bool] = True

    gamma: float = within(0, 1, default=0.99)
    """Discount."""
    balance: float = within(0, 1, default=0.8)
    """λ: weight of the residuals; the utility of logged pairs has the weight 1-λ."""
    gradient: Gradient = one_of(Gradient, default="orthogonal")
    """The gradient of V: of its loss (full), of V(s,s') alone (semi), or ODICE's (orthogonal)."""
    eta: float = at_least(0, default=0.5)
    """Weight of the gradient through V(s',s'') before it is made orthogonal."""
    beta: float = at_least(0, default=0.06)
    """Inverse temperature of the weights with which logged actions are cloned."""
    policy_rate: float = at_least(0, default=1e-4)
    """Learning rate of the policy."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_critic, k_policy = jax.random.split(key)
        critic = twins_of(k_critic, 2 * state_size, self.width)
        return Nets(critic, critic, self.make_policy(k_policy, state_size, space))

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        expert = triples(batch.expert, batch.after_expert, self.gamma)
        offline = triples(batch.offline, batch.after_offline, self.gamma)
        critic_loss = self._critic_loss(nets, expert, offline)

        rows = batch.offline
        w = stop_gradient(normalised(self.log_weights(nets, rows)))
        policy_loss = -mean(w * nets.policy.log_prob(rows.s, rows.a))
        losses = {"critic_loss": critic_loss, "policy_loss": policy_loss}
        return critic_loss + policy_loss, losses

    def _critic_loss(self, nets: Nets, expert: Triples, offline: Triples) -> Float[Array, ""]:
        """The loss of V with the gradient that was chosen."""
        parts = Parts(self, expert, offline, stop_gradient(nets.target))
        value = over_twins(parts.whole, nets.critic)
        if self.gradient == "full":
            return value

        def slope(part: Callable[[Any], Float[Array, ""]]) -> Any:
            return jax.grad(over_twins, argnums=1)(part, stop_gradient(nets.critic))

        chosen = slope(parts.forward)
        if self.gradient == "orthogonal":
            chosen = orthogonal_sum(chosen, slope(parts.backward))
        whole = jax.tree.map(jnp.add, slope(parts.linear), chosen)
        return with_gradient(value, nets.critic, whole)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        """The log weights of cloning, which are those of no occupancy."""
        return log_advantage_weights(nets.critic.least(rows.s, rows.s_next), self.beta)


class Parts(NamedTuple):
    """The parts of the loss of V, as functions of one of its two networks."""

    setting: DILO
    expert: Triples
    offline: Triples
    target: Twins

    def linear(self, v: Any) -> Float[Array, ""]:
        """(1-λ) E_I[V(s,s')]."""
        return (1 - self.setting.balance) * mean(v(self.offline.here), self.offline.p)

    def residuals(self, here: list[Values], after: list[Values]) -> Float[Array, ""]:
        """The loss of the residuals and of the utilities of the expert's and logged pairs."""
        y_expert = self.expert.residual(here[0], after[0])
        y_offline = self.offline.residual(here[1], after[1])
        term = mixture_term(y_expert, y_offline, self.expert.p, self.offline.p)
        return self.setting.balance * term

    def here(self, v: Any) -> list[Values]:
        return at(v, self.expert.here, self.offline.here)

    def after(self, v: Any) -> list[Values]:
        return at(v, self.expert.after, self.offline.after)

    def forward(self, v: Any) -> Float[Array, ""]:
        """The residuals with V(s',s'') of the targets."""
        return self.residuals(self.here(v), least(self.after, self.target))

    def backward(self, v: Any) -> Float[Array, ""]:
        """The residuals with V(s,s') of the targets, times η."""
        return self.setting.eta * self.residuals(least(self.here, self.target), self.after(v))

    def whole(self, v: Any) -> Float[Array, ""]:
        """The loss itself."""
        return self.linear(v) + self.residuals(self.here(v), self.after(v))


def least(values: Callable[[Any], list[Values]], twins: Twins) -> list[Values]:
    """The smaller of both networks' values."""
    return list(map(jnp.minimum, values(twins.one), values(twins.two)))


def over_twins(part: Callable[[Any], Float[Array, ""]], twins: Twins) -> Float[Array, ""]:
    """The mean of a loss over both networks."""
    return (part(twins.one) + part(twins.two)) / 2
