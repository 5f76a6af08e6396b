"""The line that calibrates a logit, against an independent minimiser and known answers."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from lobsdice.equations.ratio import SLOPES, bounded_log_ratio, calibration


def logits(slope, bias, n=20_000):
    """Logits (x - bias) / slope of rows whose true log ratio is x: two unit normals, 1 apart."""
    random = np.random.default_rng(0)
    expert, offline = random.normal(0.5, 1, n), random.normal(-0.5, 1, n)
    return (expert - bias) / slope, (offline - bias) / slope


@pytest.mark.parametrize(("slope", "bias"), [(1.0, 0.0), (0.5, -0.3), (2.0, 1.0)])
def test_the_line_undoes_a_known_one(slope, bias):
    found = calibration(*map(jnp.asarray, logits(slope, bias)), ridge=0.0)
    np.testing.assert_allclose(found, (slope, bias), atol=0.06)


def test_the_line_has_the_least_logistic_loss():
    expert, offline = logits(1.7, 0.4, n=200)

    def loss(line):
        at_expert, at_offline = (line[0] * x + line[1] for x in (expert, offline[:150]))
        return np.logaddexp(0, -at_expert).mean() + np.logaddexp(0, at_offline).mean()

    wanted = minimize(loss, np.array([1.0, 0.0]), tol=1e-12).x
    found = calibration(jnp.asarray(expert), jnp.asarray(offline[:150]), ridge=0.0)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_slope_stays_bounded_where_the_classes_do_not_overlap():
    slope, bias = calibration(jnp.full(50, 0.1), jnp.full(50, -0.1))
    assert slope == pytest.approx(SLOPES[1])
    assert np.isfinite(bias)


def test_a_logit_that_orders_the_classes_wrongly_has_the_least_slope():
    expert, offline = logits(1.0, 0.0, n=1000)
    slope, _ = calibration(jnp.asarray(offline), jnp.asarray(expert))
    assert slope == pytest.approx(SLOPES[0])


def test_without_a_floor_the_log_ratio_is_the_logit_however_large():
    logits = jnp.array([-500.0, -1.0, 0.0, 2.0, 500.0], jnp.float32)
    np.testing.assert_allclose(bounded_log_ratio(logits, 0.0), logits, rtol=1e-6)
