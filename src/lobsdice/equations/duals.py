"""The dual objectives of LobsDICE and its kin as functions of values.

The paper is Kim et al., NeurIPS 2022, arXiv:2202.13536; its labels name the equations.
Each function takes vectors of values at n samples, under the batch mean or under given
probabilities, so that the tabular solvers and the networks share it.

    paper            here        meaning
    r(s,s')          r           log d^E(s,s') / d^I(s,s')
    ν(s), ν(s')      nu, nu_next multiplier of the flow constraint at s, at the next state
    μ(s,s')          mu          multiplier of the marginalisation constraint
    A_ν(s,s')        e           r(s,s') + γ ν(s') - ν(s), what `residual` gives
    e_{μ,ν}(s,a)     e           the same with r = -μ, in expectation over s'
    w(s,a), w̄(s,s')  w, w_pairs  d(s,a) / d^I(s,a), d(s,s') / d^I(s,s')

The objectives are those of the paper's minimisations: the primal maximum equals their minimum.
"""

from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float

from lobsdice.equations.expectations import Probs, log_mean_exp, mean

Values = Float[Array, " n"]
InitValues = Float[Array, " n0"]
PairValues = Float[Array, " n_pairs"]
Scalar = Float[Array, ""]
#: Hyperparameters are plain floats, or traced when a fleet of runs differs in them.
Number: TypeAlias = float | Float[Array, ""]


def residual(r: Values, nu: Values, nu_next: Values, gamma: Number) -> Values:
    """A_ν(s,s') = r(s,s') + γ ν(s') - ν(s)."""
    return r + gamma * nu_next - nu


def dual(
    nu_init: InitValues,
    e: Values,
    *,
    gamma: Number,
    alpha: Number,
    p_init: InitValues | None = None,
    p: Probs = None,
) -> Scalar:
    """(1-γ) E_{p0}[ν(s)] + (1+α) log E_{d^I}[exp(e / (1+α))], eq. main_fenchel_objective.

    Convex in ν and unmoved by ν + C.
    """
    return (1 - gamma) * mean(nu_init, p_init) + (1 + alpha) * log_mean_exp(e / (1 + alpha), p)


def log_weights(e: Values, *, alpha: Number) -> Values:
    """log d/d^I = e / (1+α), up to a constant."""
    return e / (1 + alpha)


def weights(e: Values, *, alpha: Number, p: Probs = None) -> Values:
    """w = d/d^I ∝ exp(e / (1+α)), normalised so that E_{d^I}[w] = 1."""
    x = log_weights(e, alpha=alpha)
    return jnp.exp(x - log_mean_exp(x, p))


def chi2_conjugate(e: Values) -> Values:
    """max_{w≥0} w e - (w-1)²/2, which is e + e²/2 where e > -1, and -1/2 below."""
    return (_chi2_maximiser(e) ** 2 - 1) / 2


def _chi2_maximiser(e: Values) -> Values:
    return jnp.maximum(e + 1, 0)


def dual_chi2(
    nu_init: InitValues,
    e: Values,
    *,
    gamma: Number,
    p_init: InitValues | None = None,
    p: Probs = None,
) -> Scalar:
    """(1-γ) E_{p0}[ν(s)] + E_{d^I}[f*(e)], f* the conjugate of χ²; α is zero (SMODICE)."""
    return (1 - gamma) * mean(nu_init, p_init) + mean(chi2_conjugate(e), p)


def log_weights_chi2(e: Values) -> Values:
    """log d/d^I = log max(e + 1, 0), up to a constant; -∞ where there is no weight."""
    return jnp.log(_chi2_maximiser(e))


def weights_chi2(e: Values, *, p: Probs = None) -> Values:
    """w = d/d^I ∝ max(e + 1, 0), normalised so that E_{d^I}[w] = 1, unless all are zero."""
    w = _chi2_maximiser(e)
    total = mean(w, p)
    return w / jnp.where(total > 0, total, 1.0)


def lagrange_dual(
    nu_init: InitValues,
    e: Values,
    *,
    gamma: Number,
    alpha: Number,
    p_init: InitValues | None = None,
    p: Probs = None,
) -> Scalar:
    """(1-γ) E_{p0}[ν(s)] + (1+α) E_{d^I}[exp(e / (1+α) - 1)], eq. lagrange_objective_single."""
    penalty = mean(jnp.exp(e / (1 + alpha) - 1), p)
    return (1 - gamma) * mean(nu_init, p_init) + (1 + alpha) * penalty


def closed_form_mu(
    r: Values, nu: Values, nu_next: Values, *, gamma: Number, alpha: Number
) -> Values:
    """μ_ν(s,s') = (-α r(s,s') + γ ν(s') - ν(s)) / (1+α), eq. closed_form_solution_mu."""
    return residual(-alpha * r, nu, nu_next, gamma) / (1 + alpha)


def closed_form_weights(e: Values, *, alpha: Number) -> Values:
    """w_{μ,ν}(s,a) = exp(e_{μ,ν}(s,a) / α - 1), eq. closed_form_solution_wsa_wss1."""
    return jnp.exp(e / alpha - 1)


def closed_form_pair_weights(r: PairValues, mu: PairValues) -> PairValues:
    """w̄_μ(s,s') = exp(r(s,s') + μ(s,s') - 1), eq. closed_form_solution_wsa_wss1."""
    return jnp.exp(r + mu - 1)


def lagrange_dual_double(
    nu_init: InitValues,
    r: PairValues,
    mu: PairValues,
    e: Values,
    *,
    gamma: Number,
    alpha: Number,
    p_init: InitValues | None = None,
    p_pairs: PairValues | None = None,
    p: Probs = None,
) -> Scalar:
    """(1-γ) E_{p0}[ν] + E_{d^I}[w̄_μ(s,s')] + α E_{d^I}[w_{μ,ν}(s,a)], lagrange_objective_double.

    The values r and μ are at pairs (s,s'), those of e = e_{μ,ν} at (s,a). With the tables of an MDP
    and their probabilities it is eq. tabular_lobsdice_objective; with samples (s,a,s') in both
    places it is the upper bound of eq. approx_lagrangian_objective_double.
    """
    pairs = mean(closed_form_pair_weights(r, mu), p_pairs)
    actions = mean(closed_form_weights(e, alpha=alpha), p)
    return (1 - gamma) * mean(nu_init, p_init) + pairs + alpha * actions


def dual_double(
    nu_init: InitValues,
    r: PairValues,
    mu: PairValues,
    e: Values,
    *,
    gamma: Number,
    alpha: Number,
    p_init: InitValues | None = None,
    p_pairs: PairValues | None = None,
    p: Probs = None,
) -> Scalar:
    """(1-γ) E_{p0}[ν] + log E_{d^I}[exp(r+μ)] + α log E_{d^I}[exp(e_{μ,ν}/α)], eq. dual_fenchel.

    Unmoved by μ + C and ν + C'.
    """
    pairs = log_mean_exp(r + mu, p_pairs)
    actions = log_mean_exp(e / alpha, p)
    return (1 - gamma) * mean(nu_init, p_init) + pairs + alpha * actions
