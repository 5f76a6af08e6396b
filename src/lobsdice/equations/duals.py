"""The dual objectives of LobsDICE and related methods, as functions of values.

Equation numbers are those of the paper: Kim et al., NeurIPS 2022, arXiv:2202.13536. Each function
takes vectors of values at n samples. Expectations are means over the samples, or are taken under
given probabilities p. So networks and tabular solvers share the functions.

    paper            here        meaning
    r(s,s')          r           log d^E(s,s') / d^I(s,s')
    ν(s), ν(s')      nu, nu_next multiplier of the flow constraint at s, at the next state
    μ(s,s')          mu          multiplier of the marginalisation constraint
    A_ν(s,s')        e           r(s,s') + γ ν(s') - ν(s), computed by `residual`
    e_{μ,ν}(s,a)     e           the same with r = -μ, in expectation over s'
    w(s,a), w̄(s,s')  w, w_pairs  d(s,a) / d^I(s,a), d(s,s') / d^I(s,s')

All objectives are to be minimised. Their minimum equals the maximum of the primal problem.
"""

from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float

from lobsdice.equations.expectations import Probs, log_mean_exp, mean

Values = Float[Array, " n"]
InitValues = Float[Array, " n0"]
PairValues = Float[Array, " n_pairs"]
Scalar = Float[Array, ""]
#: A hyperparameter: a plain float, or a traced scalar when the runs of a fleet differ in it.
Number: TypeAlias = float | Float[Array, ""]
#: The number of powers that `sharpened` chooses from.
POWERS = 9


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
    """(1-γ) E_{p0}[ν(s)] + (1+α) log E_{d^I}[exp(e / (1+α))], eq. (23).

    It is convex in ν, and adding a constant to ν does not change it.
    """
    return (1 - gamma) * mean(nu_init, p_init) + (1 + alpha) * log_mean_exp(e / (1 + alpha), p)


def log_weights(e: Values, *, alpha: Number) -> Values:
    """log d/d^I = e / (1+α), up to a constant."""
    return e / (1 + alpha)


def weights(e: Values, *, alpha: Number, p: Probs = None) -> Values:
    """w = d/d^I ∝ exp(e / (1+α)), normalised so that E_{d^I}[w] = 1."""
    return normalised(log_weights(e, alpha=alpha), p)


def normalised(log_w: Values, p: Probs = None) -> Values:
    """Weights with the mean 1."""
    return jnp.exp(log_w - log_mean_exp(log_w, p))


def sharpened(log_w: Values, *, most: Number, least_share: Number) -> Values:
    """Log weights times the largest power in [1, `most`] that leaves enough effective rows.

    The effective share of weights w is (Σ w)² / (n Σ w²). It falls as the power grows. If weights
    have less than `least_share` as they are, they stay as they are.
    """
    powers = 1 + (most - 1) * jnp.linspace(0, 1, POWERS)

    def effective_share(power: Number) -> Scalar:
        w = jnp.exp(power * (log_w - jnp.max(log_w)))
        return jnp.mean(w) ** 2 / jnp.mean(w**2)

    enough = jnp.stack([effective_share(power) for power in powers]) >= least_share
    return log_w * jnp.max(jnp.where(enough, powers, 1.0))


def chi2_conjugate(e: Values) -> Values:
    """max_{w≥0} w e - (w-1)²/2, which is e + e²/2 for e > -1, and -1/2 otherwise."""
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
    """(1-γ) E_{p0}[ν(s)] + E_{d^I}[f*(e)] of SMODICE, with f* the conjugate of χ², and α = 0."""
    return (1 - gamma) * mean(nu_init, p_init) + mean(chi2_conjugate(e), p)


def log_weights_chi2(e: Values) -> Values:
    """log d/d^I = log max(e + 1, 0), up to a constant; -∞ where the weight is zero."""
    return jnp.log(_chi2_maximiser(e))


def weights_chi2(e: Values, *, p: Probs = None) -> Values:
    """w = d/d^I ∝ max(e + 1, 0), normalised so that E_{d^I}[w] = 1; all zero if no e > -1."""
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
    """(1-γ) E_{p0}[ν(s)] + (1+α) E_{d^I}[exp(e / (1+α) - 1)], eq. (22)."""
    penalty = mean(jnp.exp(e / (1 + alpha) - 1), p)
    return (1 - gamma) * mean(nu_init, p_init) + (1 + alpha) * penalty


def closed_form_mu(
    r: Values, nu: Values, nu_next: Values, *, gamma: Number, alpha: Number
) -> Values:
    """μ_ν(s,s') = (-α r(s,s') + γ ν(s') - ν(s)) / (1+α), eq. (21)."""
    return residual(-alpha * r, nu, nu_next, gamma) / (1 + alpha)


def closed_form_weights(e: Values, *, alpha: Number) -> Values:
    """w_{μ,ν}(s,a) = exp(e_{μ,ν}(s,a) / α - 1), eq. (15)."""
    return jnp.exp(e / alpha - 1)


def closed_form_pair_weights(r: PairValues, mu: PairValues) -> PairValues:
    """w̄_μ(s,s') = exp(r(s,s') + μ(s,s') - 1), eq. (15)."""
    return jnp.exp(r + mu - 1)


def log_weights_double(e: Values, *, alpha: Number) -> Values:
    """log d/d^I = e_{μ,ν} / α, up to a constant."""
    return e / alpha


def weights_double(e: Values, *, alpha: Number) -> Values:
    """w = d/d^I ∝ exp(e_{μ,ν} / α), normalised so that E_{d^I}[w] = 1."""
    return normalised(log_weights_double(e, alpha=alpha))


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
    """(1-γ) E_{p0}[ν] + E_{d^I}[w̄_μ(s,s')] + α E_{d^I}[w_{μ,ν}(s,a)], eq. (16).

    r and μ are values at pairs (s,s'); e = e_{μ,ν} are values at (s,a). With the tables of an MDP
    and their probabilities this is eq. (52). With samples (s,a,s') for both it is the upper bound
    of eq. (20).
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
    """(1-γ) E_{p0}[ν] + log E_{d^I}[exp(r+μ)] + α log E_{d^I}[exp(e_{μ,ν}/α)], eq. (51).

    Adding constants to μ and ν does not change it.
    """
    pairs = log_mean_exp(r + mu, p_pairs)
    actions = log_mean_exp(e / alpha, p)
    return (1 - gamma) * mean(nu_init, p_init) + pairs + alpha * actions
