"""The paper's propositions about its dual objectives, at arbitrary values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from lobsdice.equations import duals
from lobsdice.equations.expectations import log_mean_exp, mean

GAMMA, ALPHA = 0.9, 0.3


@pytest.fixture
def samples(key):
    """States s, s' and values r of 40 samples of a problem with six states, and its p0."""
    k_s, k_next, k_r, k_init = jax.random.split(key, 4)
    s = jnp.concatenate([jnp.arange(6), jax.random.randint(k_s, (34,), 0, 6)])
    s_next = jax.random.randint(k_next, (40,), 0, 6)
    p_init = jax.nn.softmax(jax.random.normal(k_init, (6,)))
    return s, s_next, jax.random.normal(k_r, (40,)), p_init


def single(nu, samples, form):
    s, s_next, r, p_init = samples
    e = duals.residual(r, nu[s], nu[s_next], GAMMA)
    return form(nu, e, gamma=GAMMA, alpha=ALPHA, p_init=p_init)


def double(point, samples, form):
    """A dual with one μ for each sample, as in eq. (20)."""
    s, s_next, r, p_init = samples
    mu, nu = point[:40], point[40:]
    e = duals.residual(-mu, nu[s], nu[s_next], GAMMA)
    return form(nu, r, mu, e, gamma=GAMMA, alpha=ALPHA, p_init=p_init)


def minimum(f, size):
    value_and_grad = jax.jit(jax.value_and_grad(f))
    found = minimize(
        value_and_grad, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    return found.fun, found.x


def test_means_under_equal_probabilities_are_batch_means(key):
    x = jax.random.normal(key, (7,))
    p = jnp.full(7, 1 / 7)
    np.testing.assert_allclose(mean(x, p), mean(x), rtol=1e-14)
    np.testing.assert_allclose(log_mean_exp(x, p), log_mean_exp(x), rtol=1e-14)


def test_log_mean_exp_ignores_impossible_values_and_never_overflows():
    x = jnp.array([1e5, 1e5, 3e5])
    np.testing.assert_allclose(log_mean_exp(x, jnp.array([0.5, 0.5, 0.0])), 1e5)


def test_weights_are_the_gradient_of_the_dual(key):
    e = jax.random.normal(key, (7,))
    slope = jax.grad(lambda e: duals.dual(jnp.zeros(3), e, gamma=GAMMA, alpha=ALPHA))(e)
    np.testing.assert_allclose(slope, duals.weights(e, alpha=ALPHA) / 7, rtol=1e-10)


def test_weights_have_mean_one(key):
    e = 30 * jax.random.normal(key, (7,))
    p = jax.nn.softmax(e[::-1])
    np.testing.assert_allclose(mean(duals.weights(e, alpha=ALPHA, p=p), p), 1, rtol=1e-12)


def test_the_fenchel_dual_ignores_a_constant_shift_of_nu(samples, key):
    nu = jax.random.normal(key, (6,))
    here, shifted = (single(nu + c, samples, duals.dual) for c in (0.0, 5.0))
    np.testing.assert_allclose(here, shifted, rtol=1e-12)


def test_the_two_variable_fenchel_dual_ignores_shifts_of_both(samples, key):
    point = jax.random.normal(key, (46,))
    shift = jnp.concatenate([jnp.full(40, 2.0), jnp.full(6, -7.0)])
    here, shifted = (double(x, samples, duals.dual_double) for x in (point, point + shift))
    np.testing.assert_allclose(here, shifted, rtol=1e-12)


@pytest.mark.parametrize("form", [duals.dual, duals.lagrange_dual])
def test_the_single_duals_are_convex(samples, key, form):
    curvature = jax.jit(jax.vmap(jax.hessian(lambda nu: single(nu, samples, form))))
    assert np.linalg.eigvalsh(curvature(jax.random.normal(key, (5, 6)))).min() > -1e-12


@pytest.mark.parametrize("form", [duals.dual_double, duals.lagrange_dual_double])
def test_the_double_duals_are_convex(samples, key, form):
    curvature = jax.jit(jax.vmap(jax.hessian(lambda x: double(x, samples, form))))
    assert np.linalg.eigvalsh(curvature(jax.random.normal(key, (5, 46)))).min() > -1e-10


def test_closed_form_weights_maximise_the_lagrangian(key):
    """Proposition 3.1: a w enters as w (e - α log w), a w̄ as w̄ (r + μ - log w̄)."""
    e, r, mu = jax.random.normal(key, (3, 5))
    cases = [
        (lambda w: w * (e - ALPHA * jnp.log(w)), duals.closed_form_weights(e, alpha=ALPHA)),
        (lambda w: w * (r + mu - jnp.log(w)), duals.closed_form_pair_weights(r, mu)),
    ]
    for lagrangian, w in cases:

        def loss(log_w, lagrangian=lagrangian):
            return -lagrangian(jnp.exp(log_w)).sum()

        found = minimize(loss, np.zeros(5), tol=1e-10)
        np.testing.assert_allclose(w, np.exp(found.x), rtol=1e-4)
        assert lagrangian(w).sum() >= -found.fun - 1e-12


def test_the_double_dual_is_the_lagrangian_at_its_closed_form_weights(samples, key):
    point = jax.random.normal(key, (46,))
    s, s_next, r, p_init = samples
    mu, nu = point[:40], point[40:]
    e = duals.residual(-mu, nu[s], nu[s_next], GAMMA)
    w = duals.closed_form_weights(e, alpha=ALPHA)
    w_pairs = duals.closed_form_pair_weights(r, mu)
    lagrangian = (1 - GAMMA) * mean(nu, p_init)
    lagrangian += mean(w_pairs * (r + mu - jnp.log(w_pairs))) + mean(w * (e - ALPHA * jnp.log(w)))
    dual = double(point, samples, duals.lagrange_dual_double)
    np.testing.assert_allclose(dual, lagrangian, rtol=1e-12)


def test_closed_form_mu_minimises_the_double_dual_and_gives_the_single_one(samples, key):
    s, s_next, r, _ = samples
    nu = jax.random.normal(key, (6,))
    mu = duals.closed_form_mu(r, nu[s], nu[s_next], gamma=GAMMA, alpha=ALPHA)

    def at(mu):
        return double(jnp.concatenate([mu, nu]), samples, duals.lagrange_dual_double)

    lowest, found = minimum(at, 40)
    np.testing.assert_allclose(mu, found, atol=1e-5)
    np.testing.assert_allclose(at(mu), lowest, rtol=1e-9)
    np.testing.assert_allclose(at(mu), single(nu, samples, duals.lagrange_dual), rtol=1e-12)


def test_single_fenchel_and_lagrange_minima_agree_and_argmins_differ_by_a_constant(samples):
    lagrange, nu_lagrange = minimum(lambda nu: single(nu, samples, duals.lagrange_dual), 6)
    fenchel, nu_fenchel = minimum(lambda nu: single(nu, samples, duals.dual), 6)
    np.testing.assert_allclose(lagrange, fenchel, rtol=1e-9)
    assert np.ptp(nu_lagrange - nu_fenchel) < 1e-5


def test_double_fenchel_and_lagrange_minima_agree_and_argmins_differ_by_constants(samples):
    lagrange, at_lagrange = minimum(lambda x: double(x, samples, duals.lagrange_dual_double), 46)
    fenchel, at_fenchel = minimum(lambda x: double(x, samples, duals.dual_double), 46)
    np.testing.assert_allclose(lagrange, fenchel, rtol=1e-9)
    apart = at_lagrange - at_fenchel
    assert np.ptp(apart[:40]) < 1e-4 and np.ptp(apart[40:]) < 1e-4


def test_the_fenchel_dual_is_never_above_the_lagrange_dual(samples, key):
    for k in jax.random.split(key, 5):
        nu = jax.random.normal(k, (6,))
        assert single(nu, samples, duals.dual) <= single(nu, samples, duals.lagrange_dual) + 1e-12


def test_the_conjugate_of_chi2_is_a_maximum_over_weights_that_are_not_negative():
    e, w = jnp.linspace(-3, 3, 61), jnp.linspace(0, 5, 50_001)
    gains = jax.vmap(lambda x: jnp.max(w * x - (w - 1) ** 2 / 2))(e)
    np.testing.assert_allclose(duals.chi2_conjugate(e), gains, atol=1e-8)


def test_weights_of_chi2_are_the_gradient_of_its_conjugate_with_mean_one(key):
    e = 2 * jax.random.normal(key, (40,))
    slope = jax.grad(lambda e: duals.chi2_conjugate(e).sum())(e)
    np.testing.assert_allclose(slope, np.maximum(e + 1, 0))
    np.testing.assert_allclose(duals.weights_chi2(e), slope / slope.mean(), rtol=1e-12)
    p = jax.nn.softmax(e)
    np.testing.assert_allclose(mean(duals.weights_chi2(e, p=p), p), 1)
    assert (duals.weights_chi2(jnp.full(3, -2.0)) == 0).all()


def test_at_the_minimum_of_the_chi2_dual_the_weights_have_mean_one_by_themselves(samples):
    s, s_next, r, p_init = samples

    def objective(nu):
        e = duals.residual(r, nu[s], nu[s_next], GAMMA)
        return duals.dual_chi2(nu, e, gamma=GAMMA, p_init=p_init)

    nu = jnp.asarray(minimum(objective, 6)[1])
    e = duals.residual(r, nu[s], nu[s_next], GAMMA)
    np.testing.assert_allclose(jnp.maximum(e + 1, 0).mean(), 1, rtol=1e-6)
