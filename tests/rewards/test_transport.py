"""Optimal transport, against a linear program and against Sinkhorn on logarithms."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logsumexp
from worlds import noise_data

from lobsdice.rewards.transport import best_costs, runs, score_transport, transport_costs


def costs(rng, n, m, spread=1.0):
    return (spread * rng.random((n, m))).astype(np.float32)


def paid(cost, **options):
    """The cost of each row; states whose products are 1 - C stand for any costs C."""
    states = np.eye(cost.shape[1], dtype=np.float32)
    return transport_costs(1 - cost, states, **options)


def linear_program(cost):
    """The plan of least cost between equal masses."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    masses = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    found = linprog(cost.ravel(), A_eq=np.concatenate([rows, columns]), b_eq=masses)
    assert found.success
    return found.x.reshape(n, m)


def on_logarithms(cost, epsilon, iterations):
    """Sinkhorn's iteration as published."""
    (n, m), log_k = cost.shape, -cost.astype(np.float64) / epsilon
    f, g = np.zeros(n), np.zeros(m)
    for _ in range(iterations):
        f = -np.log(n) - logsumexp(log_k + g, axis=1)
        g = -np.log(m) - logsumexp(log_k + f[:, None], axis=0)
    return np.exp(f[:, None] + log_k + g)


@pytest.mark.parametrize("n, m", [(7, 7), (12, 5), (4, 9)])
def test_with_little_entropy_costs_are_those_of_the_linear_program(n, m):
    cost = costs(np.random.default_rng(n), n, m)
    exact = (linear_program(cost) * cost).sum(axis=1)
    found = paid(cost, epsilon=1e-3, iterations=20_000, tolerance=1e-6)
    np.testing.assert_allclose(found, exact, atol=3e-4)


@pytest.mark.parametrize("n, m, spread", [(300, 270, 1.0), (40, 600, 2.0), (1, 5, 1.0)])
def test_costs_are_those_of_the_iteration_on_logarithms(n, m, spread):
    cost = costs(np.random.default_rng(0), n, m, spread)
    exact = (on_logarithms(cost, 0.01, 100) * cost).sum(axis=1)
    np.testing.assert_allclose(paid(cost, tolerance=0.0), exact, rtol=1e-3)


def test_points_that_lie_far_apart_do_not_overflow():
    """Here every entry of the kernel exp(-C/ε) would be zero, and potentials grow large."""
    rng = np.random.default_rng(1)
    cost = costs(rng, 50, 60) + 100 * rng.random((50, 1)).astype(np.float32)
    cost[:, :30] += 50 * rng.random((50, 30)).astype(np.float32)
    found = paid(cost, tolerance=0.0)
    assert np.isfinite(found).all()
    exact = (on_logarithms(cost, 0.01, 100) * cost).sum(axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-2)


def test_an_episode_that_is_a_demonstration_costs_nothing_and_picks_it():
    rng = np.random.default_rng(2)
    shown = [x / np.linalg.norm(x, axis=1)[:, None] for x in rng.normal(size=(3, 20, 8))]
    shown = [x.astype(np.float32) for x in shown]
    assert (best_costs(shown[1], shown) < 1e-2).all()
    assert (best_costs(shown[1], [shown[0], shown[2]]) > 0.1).any()


def test_scores_are_costs_of_each_episode_by_its_length_and_the_number_of_features():
    data = noise_data()
    assert data.episode is not None and data.expert_episode is not None
    found = score_transport(data, raw=False)

    def unit(s):
        return s / np.linalg.norm(s, axis=1, keepdims=True)

    demonstrations = [data.expert.s[data.expert_episode == i] for i in range(4)]
    for rows in runs(data.episode, len(data.offline.s)):
        cost = [1 - unit(data.offline.s[rows]) @ unit(e).T for e in demonstrations]
        each = [10 / 3 * (on_logarithms(c, 0.01, 100) * c).sum(axis=1) for c in cost]
        best = max(each, key=lambda c: np.exp(-5 * c).sum())
        np.testing.assert_allclose(found.steps[rows], best, rtol=0.03, atol=3e-3)
    assert (found.beyond == found.steps).all()
    # In the files' units, means and scales matter to cosines.
    assert not np.allclose(found.steps, score_transport(data, raw=True).steps)
