"""Aggregates over tasks: known answers, and intervals of the right width."""

import numpy as np
import pytest

from lobsdice.experiments.statistics import interquartile_mean, interval, mean


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert interquartile_mean(np.array([[-1000.0, 1.0], [2.0, 1000.0]])) == 1.5
    assert interquartile_mean(np.arange(8.0).reshape(2, 4)) == 3.5


def test_the_interval_of_the_mean_is_that_of_theory():
    """Resampling within tasks ignores the spread between them: s.e.² = Σ var_task / n / tasks²."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(200, 3)) + np.array([0.0, 50.0, 100.0])
    found = interval(scores, mean, samples=4000)
    error = np.sqrt(np.sum(scores.var(axis=0) / 200)) / 3
    assert found.value == pytest.approx(scores.mean())
    assert found.high - found.value == pytest.approx(1.96 * error, rel=0.1)
    assert found.value - found.low == pytest.approx(1.96 * error, rel=0.1)


def test_runs_that_are_all_alike_have_an_interval_of_no_width():
    scores = np.broadcast_to(np.array([10.0, 20.0, 90.0]), (5, 3))
    found = interval(scores, mean)
    assert found.low == found.high == pytest.approx(40.0)
