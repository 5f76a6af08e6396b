"""Aggregates and tests over tasks: known answers, and intervals of the right width."""

import numpy as np
import pytest

from lobsdice.experiments.statistics import (
    holm,
    interquartile_mean,
    interval,
    mean,
    over_tasks,
    sign_flip,
    signed_rank,
)


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


def test_a_task_with_fewer_runs_counts_as_much_and_is_less_certain():
    random = np.random.default_rng(0)
    scores = np.ma.masked_array(random.normal(size=(200, 2)) + np.array([0.0, 50.0]))
    scores[40:, 1] = np.ma.masked
    few, many = np.asarray(scores)[:40, 1], np.asarray(scores)[:, 0]
    found = interval(scores, mean, samples=4000)
    error = np.sqrt(few.var() / 40 + many.var() / 200) / 2
    assert found.value == pytest.approx((few.mean() + many.mean()) / 2)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert over_tasks(scores).high == pytest.approx(few.mean(), abs=0.5)
    assert interquartile_mean(scores) == interquartile_mean(np.array([[*few, *many]]))


def test_runs_that_are_all_alike_have_an_interval_of_no_width():
    scores = np.broadcast_to(np.array([10.0, 20.0, 90.0]), (5, 3))
    found = interval(scores, mean)
    assert found.low == found.high == pytest.approx(40.0)


def test_an_interval_over_tasks_is_that_of_two_tasks_without_noise():
    scores = np.tile([0.0, 1.0], (5, 1))
    assert over_tasks(scores) == (0.5, 0.0, 1.0)
    assert interval(scores, mean) == (0.5, 0.5, 0.5)  # these very tasks are known


def test_the_interval_over_tasks_is_that_of_theory():
    """Seeds that are all alike: s.e.² = var between tasks / tasks."""
    scores = np.broadcast_to(np.random.default_rng(0).normal(size=100), (5, 100))
    found = over_tasks(scores, samples=4000)
    half = 1.96 * scores[0].std() / 10
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize("test", [signed_rank, sign_flip])
def test_paired_tests_have_their_exact_p_values(test):
    assert test(np.arange(1.0, 6)) == pytest.approx(2 / 2**5)  # the least that five pairs can give
    assert test(-np.arange(1.0, 13)) == pytest.approx(2 / 2**12)
    # Of 16 choices of signs, four have a sum, or a rank sum, as far from zero: 2+3+4-1 or more.
    assert test(np.array([-1.0, 2.0, 3.0, 4.0])) == pytest.approx(4 / 16)
    assert test(np.zeros(5)) == 1
    assert test(np.array([0.0, 0.0, 1.0, -1.0, 2.0, -2.0])) == pytest.approx(1)


def test_many_signs_are_drawn_and_few_are_all_tried():
    """Of 2^20 choices of signs, 2 (1 + 20) have a sum as far from zero."""
    many = np.concatenate([[-1.0], np.ones(19)])
    assert sign_flip(many) == pytest.approx(2 * (1 + 20) / 2**20, abs=3e-4)
    assert sign_flip(many) > 0


def test_holms_correction_multiplies_the_least_p_value_by_the_number_of_tests():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([0.02]) == [0.02] and holm([]) == []
