"""SMODICE (Ma et al., ICML 2022, arXiv:2202.02433): offline matching of the expert's states.

Among the stationary distributions d of the environment, find the one that leads to the expert's
states and stays near the offline data,

    max_d  E_d[r(s)] - D_f(d(s,a) ‖ d^I(s,a)),   r(s) = log d^E(s) / d^I(s),

with the KL divergence or with χ²: f(w) = w log w or f(w) = (w-1)²/2. For KL the objective is a
lower bound of -KL(d(s) ‖ d^E(s)). The dual has one unknown, ν(s). It gives the weights with which
the policy clones the offline data:

    KL   min_ν  (1-γ) E_{p0}[ν] + log E_{d^I}[exp(e)],   w ∝ exp(e)
    χ²   min_ν  (1-γ) E_{p0}[ν] + E_{d^I}[f*(e)],        w ∝ f*'(e) = max(e + 1, 0)

    paper            here          meaning
    c(s)             σ(nets.r)     the probability that a state is the expert's
    R(s)             r             log d^E(s) / d^I(s), bounded
    V(s)             nets.nu       multiplier of the flow constraint at s
    R + γ V' - V     e             r(s) + γ ν(s') - ν(s)
    ξ(s,a)           w             d/d^I, self-normalised in the batch
"""

from functools import partial
from typing import ClassVar

from jaxtyping import Array, Float, Key

from lobsdice.algorithms.base import Metrics, add_penalties, hyperparameters, within
from lobsdice.algorithms.batch import Batch, at, blurred
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.dice import make_nets
from lobsdice.algorithms.discriminator import ratio_loss
from lobsdice.algorithms.gradients import Directed, Nets
from lobsdice.algorithms.registry import STATES, register
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import (
    InitValues,
    Values,
    dual,
    dual_chi2,
    log_weights,
    log_weights_chi2,
    residual,
    weights,
    weights_chi2,
)
from lobsdice.equations.ratio import Rows


@register
@hyperparameters
class SMODICE(Directed):
    """Hyperparameters of SMODICE: LobsDICE's, so that a comparison compares the methods."""

    summary: ClassVar = "Match the expert's states, by an upper bound."
    citation: ClassVar = "Ma et al. 2022, arXiv:2202.02433"
    needs: ClassVar = STATES

    gamma: float = within(0, 1, default=0.99)
    """Discount; 1 is allowed unless `chi2` is set."""
    chi2: bool = False
    """Use the χ² divergence instead of KL. The paper has both."""

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        fresh = make_nets(self, key, state_size, state_size, space)
        return self.with_target(Nets(*fresh))

    def seen(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> tuple[Rows, Rows]:
        batch = blurred(batch, key, self.blur)
        return batch.expert.s, batch.offline.s

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        s, s_next = batch.offline.s, batch.offline.s_next
        expert, offline = self.seen(nets, batch, key)
        r_loss, r = ratio_loss(nets.r, expert, offline, floor=self.ratio_floor)

        nu_init, nu, nu_next = at(nets.nu, batch.init, s, s_next)
        exponent = partial(residual, r, gamma=self.gamma)
        e = exponent(nu, nu_next)
        nu_loss = self.directed(self._dual(nu_init, e), nets, batch, exponent, self._dual)
        w = weights_chi2(e) if self.chi2 else weights(e, alpha=0.0)
        policy_loss = cloning_loss(nets.policy, batch, w)

        losses = {"ratio_loss": r_loss, "nu_loss": nu_loss, "policy_loss": policy_loss}
        penalties = self.penalties(nets, batch, expert, offline, key)
        return add_penalties(losses, penalties, penalised)

    def _dual(self, nu_init: InitValues, e: Values) -> Float[Array, ""]:
        """The dual objective of the divergence that was chosen."""
        if self.chi2:
            return dual_chi2(nu_init, e, gamma=self.gamma)
        return dual(nu_init, e, gamma=self.gamma, alpha=0.0)

    def log_weights(self, nets: Nets, rows: Transitions) -> Values:
        e = self.advantages(nets, rows, rows.s)
        return log_weights_chi2(e) if self.chi2 else log_weights(e, alpha=0.0)
