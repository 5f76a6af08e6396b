"""LobsDICE with both multipliers: ν(s) of the flow and μ(s,s') of the marginalisation.

The paper (Kim et al., 2022, arXiv:2202.13536) eliminates μ by its closed form before it trains
networks; here μ is a network of its own. Minimised over μ exactly, on the same samples, the
objective is that of `lobsdice`. With μ(s) and r(s) instead it matches states (appendix B), where
no closed form is at hand. The two forms have the same minima but for constants (appendix F):

    fenchel   (1-γ) E_{p0}[ν] + log E_{d^I}[exp(r+μ)] + α log E_{d^I}[exp(e/α)],
              eq. dual_fenchel with one sample of s'
    lagrange  (1-γ) E_{p0}[ν] + E_{d^I}[exp(r+μ-1)] + α E_{d^I}[exp(e/α-1)],
              eq. approx_lagrangian_objective_double; its exponentials may overflow

    paper          here                    meaning
    c(s,s')        σ(nets.r)               how likely a pair is the expert's
    r(s,s')        r                       log d^E(s,s') / d^I(s,s'), bounded
    ν(s), μ(s,s')  nets.multipliers        the two unknowns of one loss
    ê_{μ,ν}        e                       -μ(s,s') + γ ν(s') - ν(s)
    ŵ_{μ,ν}        w                       d/d^I ∝ exp(e/α), self-normalised in the batch
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Batch, Defaults, Labelled, Metrics, hyperparameters
from lobsdice.algorithms.discriminator import (
    at,
    beside,
    discrimination,
    pair_critic_penalty,
    pairs,
    ratio_loss,
    ratio_penalty,
    state_critic_penalty,
)
from lobsdice.algorithms.networks import Scalar, make_policy
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Number, Values, dual_double, lagrange_dual_double, residual
from lobsdice.equations.expectations import log_mean_exp, mean
from lobsdice.equations.ratio import Rows


def log_weights_double(e: Values, *, alpha: Number) -> Values:
    """log d/d^I = e / α, up to a constant."""
    return e / alpha


def weights_double(e: Values, *, alpha: Number) -> Values:
    """w = d/d^I ∝ exp(e / α), normalised so that E_{d^I}[w] = 1."""
    x = log_weights_double(e, alpha=alpha)
    return jnp.exp(x - log_mean_exp(x))


class Multipliers(NamedTuple):
    mu: Any
    nu: Any


class Nets(NamedTuple):
    r: Any
    multipliers: Multipliers
    policy: Any


@hyperparameters
class LobsDICEMu(Defaults):
    """Hyperparameters of two-variable LobsDICE; those that it shares are `LobsDICE`'s."""

    gamma: float = 0.99
    """Discount; 1 is allowed."""
    alpha: float = 0.1
    """Weight of staying near the offline data."""
    lagrange: bool = False
    """Minimise the Lagrange form, whose exponentials may overflow, instead of the Fenchel form."""
    state_matching: bool = False
    """Match d(s) rather than d(s,s') (appendix B): r and μ are functions of s alone."""
    ratio_penalty: float = 0.1
    """Weight of the gradient penalty on r."""
    nu_penalty: float = 1e-4
    """Weight of the squared gradient of ν."""
    mu_penalty: float = 1e-4
    """Weight of the squared gradient of μ; ν's, as in the authors' release."""
    ratio_floor: float = 1e-3
    """ε: the ratio d^E/d^I is held within [ε, 1/ε], nearly. Ours; see `bounded_log_ratio`."""
    ratio_rate: float = 3e-4
    """Learning rate of the discriminator."""
    nu_rate: float = 3e-4
    """Learning rate of ν."""
    mu_rate: float = 3e-4
    """Learning rate of μ."""
    policy_rate: float = 3e-4
    """Learning rate of the policy."""
    width: int = 256
    """Units in each of the two hidden layers of every network."""
    penalty_every: int = 8
    """Apply the penalties in each 8th step, at 8 times the weight. Ours: it halves the cost."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_mu, k_nu, k_policy = jax.random.split(key, 4)
        seen = state_size if self.state_matching else 2 * state_size
        return Nets(
            r=Scalar(k_r, seen, self.width),
            multipliers=Multipliers(
                mu=Scalar(k_mu, seen, self.width),
                nu=Scalar(k_nu, state_size, self.width),
            ),
            policy=make_policy(k_policy, state_size, space, self.width),
        )

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        expert, offline = self._matched(batch)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        mu = nets.multipliers.mu(offline)
        nu_init, nu, nu_next = at(nets.multipliers.nu, batch.init, batch.s, batch.s_next)
        e = residual(-mu, nu, nu_next, self.gamma)
        objective = lagrange_dual_double if self.lagrange else dual_double
        dual_loss = objective(nu_init, r, mu, e, gamma=self.gamma, alpha=self.alpha)

        w = stop_gradient(weights_double(e, alpha=self.alpha))
        policy_loss = -mean(w * nets.policy.log_prob(batch.s, batch.a))

        zero = jnp.zeros(())
        penalties = {"ratio_penalty": zero, "nu_penalty": zero, "mu_penalty": zero}
        if penalised:
            penalties = self._penalties(nets, batch, key)
        total = r_loss + dual_loss + policy_loss + penalised * sum(penalties.values())
        losses = {"ratio_loss": r_loss, "dual_loss": dual_loss, "policy_loss": policy_loss}
        return total, losses | penalties

    def _matched(self, batch: Batch) -> tuple[Rows, Rows]:
        """What is to be matched, of the expert's and of the offline transitions."""
        return (batch.expert_s, batch.s) if self.state_matching else pairs(batch)

    def _seen(self, rows: Batch | Labelled) -> Rows:
        """What r and μ look at, of offline transitions."""
        return rows.s if self.state_matching else beside(rows.s, rows.s_next)

    def _penalties(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        k_r, k_nu, k_mu = jax.random.split(key, 3)
        mu, nu = nets.multipliers
        expert, offline = self._matched(batch)
        r_penalty = ratio_penalty(nets.r, expert, offline, k_r, floor=self.ratio_floor)
        mu_penalty = pair_critic_penalty(mu, expert, offline, k_mu)
        nu_penalty = state_critic_penalty(nu, batch, k_nu)
        return {
            "ratio_penalty": self.ratio_penalty * r_penalty,
            "nu_penalty": self.nu_penalty * nu_penalty,
            "mu_penalty": self.mu_penalty * mu_penalty,
        }

    def log_weights(self, nets: Nets, batch: Batch | Labelled) -> Values:
        """log d/d^I at transitions, up to a constant."""
        mu = nets.multipliers.mu(self._seen(batch))
        nu, nu_next = at(nets.multipliers.nu, batch.s, batch.s_next)
        e = residual(-mu, nu, nu_next, self.gamma)
        return log_weights_double(e, alpha=self.alpha)

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return discrimination(nets.r, *self._matched(batch))

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.ratio_rate, Multipliers(self.mu_rate, self.nu_rate), self.policy_rate)
