"""AUC and calibration error of known scores, with NumPy and with JAX."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import sigmoid

from lobsdice.equations.classification import auc, calibration_error

NAMESPACES = pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])


@NAMESPACES
def test_the_area_under_the_curve_counts_the_pairs_in_order(xp):
    expert, offline = np.array([0.0, 1.0, 1.0, 3.0]), np.array([1.0, -2.0, 0.0, 0.5])
    wins = expert[:, None] > offline
    ties = expert[:, None] == offline
    found = auc(xp.asarray(expert), xp.asarray(offline))
    assert found == pytest.approx((wins + ties / 2).mean())


@NAMESPACES
def test_auc_is_the_share_of_ordered_pairs(xp):
    random = np.random.default_rng(0)
    high, low = random.integers(0, 8, 40) + 1.0, random.integers(0, 8, 60).astype(float)
    wins = (high[:, None] > low).mean() + (high[:, None] == low).mean() / 2
    assert auc(xp.asarray(high), xp.asarray(low)) == pytest.approx(wins)


def test_a_discriminator_that_knows_its_chances_is_calibrated():
    """Three in four rows with logit log 3 are the expert's, and one in four with -log 3."""
    sure, unsure = np.log(3.0), -np.log(3.0)
    expert = jnp.array([sure, sure, sure, unsure])
    offline = jnp.array([sure, unsure, unsure, unsure])

    def error(sharpness):
        return calibration_error(sigmoid(sharpness * expert), sigmoid(sharpness * offline))

    assert error(1) == pytest.approx(0, abs=1e-7)
    # With the sign turned, it is off by one half everywhere. If it is sure of every row, it is off
    # by the share of rows that it gets wrong.
    assert error(-1) == pytest.approx(0.5)
    assert error(100) == pytest.approx(0.25)


@NAMESPACES
@pytest.mark.parametrize("balanced", [False, True])
def test_calibration_is_the_gap_between_claims_and_frequencies(xp, balanced):
    for positive, negative in ((0.55, 0.55), (0.95, 0.05)):
        found = calibration_error(xp.full(10, positive), xp.full(10, negative), balanced=balanced)
        assert found == pytest.approx(0.05)


def test_with_balanced_classes_the_number_of_rows_does_not_count():
    random = np.random.default_rng(0)
    positive, negative = random.uniform(size=30), random.uniform(size=40)
    found = calibration_error(positive, negative, balanced=True)
    assert calibration_error(np.tile(positive, 3), negative, balanced=True) == pytest.approx(found)
    equal = calibration_error(np.tile(positive, 4), np.tile(negative, 3))
    assert equal == pytest.approx(found)
    assert calibration_error(positive, negative) != pytest.approx(found)
