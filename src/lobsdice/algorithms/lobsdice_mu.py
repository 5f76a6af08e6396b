"""LobsDICE with both multipliers: ν(s) of the flow and μ(s,s') of the marginalisation.

The paper (Kim et al., 2022, arXiv:2202.13536) eliminates μ by its closed form before it trains
networks. Here μ is a network. Its exact minimum on the same samples would give the objective of
`lobsdice`. With μ(s) and r(s) instead it matches states (appendix B), where no closed form is
known. The objective has two forms, with the same minima up to constants (appendix F):

    fenchel   (1-γ) E_{p0}[ν] + log E[exp(r+μ)] + α log E[exp(e/α)], eq. (51) with one sample of s'
    lagrange  (1-γ) E_{p0}[ν] + E[exp(r+μ-1)] + α E[exp(e/α-1)], eq. (20); it may overflow

    paper          here                    meaning
    c(s,s')        σ(nets.r)               the probability that a pair is the expert's
    ν(s), μ(s,s')  nets.multipliers        the two unknowns of one loss
    ê_{μ,ν}        e                       -μ(s,s') + γ ν(s') - ν(s)
    ŵ_{μ,ν}        w                       d/d^I ∝ exp(e/α), self-normalised in the batch
"""

from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, above, add_penalties, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, at, blurred, pairs
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.dice import Dice
from lobsdice.algorithms.discriminator import Discriminator, pair_critic_penalty, ratio_loss
from lobsdice.algorithms.networks import Scalar
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.prepare import Observations, Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations import duals
from lobsdice.equations.duals import Values, residual
from lobsdice.equations.ratio import Rows


class Multipliers(NamedTuple):
    mu: Any
    nu: Any


class Nets(NamedTuple):
    r: Any
    multipliers: Multipliers
    policy: Any

    @property
    def nu(self) -> Any:
        return self.multipliers.nu


@register
@hyperparameters
class LobsDICEMu(Dice):
    """Hyperparameters of LobsDICE with two multipliers; the shared ones are `LobsDICE`'s."""

    summary: ClassVar = "LobsDICE with a network for each multiplier."
    citation: ClassVar = "Kim et al. 2022, arXiv:2202.13536, appendices B and F"
    needs: ClassVar = STATE_PAIRS

    alpha: float = above(0, default=0.1)
    """Weight of staying near the offline data."""
    lagrange: bool = False
    """Minimise the Lagrange form, whose exponentials may overflow, instead of the Fenchel form."""
    state_matching: bool = False
    """Match d(s) rather than d(s,s') (appendix B): r and μ are functions of s alone."""
    mu_penalty: float = at_least(0, default=1e-4)
    """Weight of the squared gradient of μ; that of ν, as in the authors' code."""
    mu_rate: float = at_least(0, default=3e-4)
    """Learning rate of μ."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_r, k_mu, k_nu, k_policy = jax.random.split(key, 4)
        seen = state_size if self.state_matching else 2 * state_size
        mu, nu = Scalar(k_mu, seen, self.width), Scalar(k_nu, state_size, self.width)
        policy = self.make_policy(k_policy, state_size, space)
        return Nets(Discriminator(k_r, seen, self.width), Multipliers(mu, nu), policy)

    def seen(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> tuple[Rows, Rows]:
        batch = blurred(batch, key, self.blur)
        return self._matched(batch.expert), self._matched(batch.offline)

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        s, s_next = batch.offline.s, batch.offline.s_next
        expert, offline = self.seen(nets, batch, key)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        mu = nets.multipliers.mu(offline)
        nu_init, nu, nu_next = at(nets.nu, batch.init, s, s_next)
        e = residual(-mu, nu, nu_next, self.gamma)
        objective = duals.lagrange_dual_double if self.lagrange else duals.dual_double
        dual_loss = objective(nu_init, r, mu, e, gamma=self.gamma, alpha=self.alpha)

        w = duals.weights_double(e, alpha=self.alpha)
        policy_loss = cloning_loss(nets.policy, batch, w)

        def mu_penalty():
            *_, k_mu = jax.random.split(key, 3)  # the first two are those of r and ν
            return self.mu_penalty * pair_critic_penalty(nets.multipliers.mu, expert, offline, k_mu)

        losses = {"ratio_loss": r_loss, "dual_loss": dual_loss, "policy_loss": policy_loss}
        penalties = self.penalties(nets, batch, expert, offline, key) | {"mu_penalty": mu_penalty}
        return add_penalties(losses, penalties, penalised)

    def _matched(self, rows: Observations | Transitions) -> Rows:
        """The rows to be matched, which r and μ see."""
        return rows.s if self.state_matching else pairs(rows)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        mu = nets.multipliers.mu(self._matched(rows))
        nu, nu_next = at(nets.nu, rows.s, rows.s_next)
        e = residual(-mu, nu, nu_next, self.gamma)
        return duals.log_weights_double(e, alpha=self.alpha)

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.ratio_rate, Multipliers(self.mu_rate, self.nu_rate), self.policy_rate)
