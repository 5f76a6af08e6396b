"""Sinkhorn's iteration on kernels, against a linear program and against that on logarithms."""

import jax
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logsumexp

from lobsdice.equations.transport import transport_costs

transport = jax.jit(transport_costs)
PUBLISHED = {"epsilon": 0.01, "iterations": 100, "tolerance": 0.0}


def costs(rng, n, m, spread=1.0):
    return (spread * rng.random((n, m))).astype(np.float32)


def paid(cost, more=0, **options):
    """What each row pays if all have the same mass, but for `more` rows and columns without any."""
    p, q = (np.pad(np.full(n, 1 / n, cost.dtype), (0, more)) for n in cost.shape)
    # Nothing is nearer than these points.
    wide = np.pad(cost, (0, more), constant_values=cost.min() - 0.5)
    return np.asarray(transport(wide, p, q, **{**PUBLISHED, **options}))


def linear_program(cost):
    """The plan of least cost between equal masses."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    masses = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    found = linprog(cost.ravel(), A_eq=np.concatenate([rows, columns]), b_eq=masses)
    assert found.success
    return found.x.reshape(n, m)


def on_logarithms(cost, epsilon=0.01, iterations=100):
    """What each row pays after Sinkhorn's iteration as published, in double precision."""
    cost = cost.astype(np.float64)
    (n, m), log_k = cost.shape, -cost / epsilon
    f, g = np.zeros(n), np.zeros(m)
    for _ in range(iterations):
        g = -np.log(m) - logsumexp(log_k + f[:, None], axis=0)
        f = -np.log(n) - logsumexp(log_k + g, axis=1)
    return (np.exp(f[:, None] + log_k + g) * cost).sum(axis=1)


def opposite_states():
    """Two heaps of states in opposite directions, and far more of the one than of the other.

    Half of all mass must go from heap to heap, where the kernel is e^-200. The factors that bring
    it there exceed all numbers in single precision.
    """
    rng = np.random.default_rng(3)
    sides = [np.repeat([1.0, -1.0], counts) for counts in ([60, 20], [15, 45])]
    x, y = (side[:, None] + 0.3 * rng.normal(size=(len(side), 3)) for side in sides)
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    return (1 - x @ y.T).astype(np.float32)


def far_apart():
    """Every entry of the kernel exp(-C/ε) is zero in single precision."""
    rng = np.random.default_rng(1)
    cost = 1 + costs(rng, 50, 60) + 100 * rng.random((50, 1)).astype(np.float32)
    cost[:, :30] += 50 * rng.random((50, 30)).astype(np.float32)
    return cost


@pytest.mark.parametrize("n, m", [(7, 7), (12, 5), (4, 9)])
def test_with_little_entropy_costs_are_those_of_the_linear_program(n, m):
    cost = costs(np.random.default_rng(n), n, m)
    exact = (linear_program(cost) * cost).sum(axis=1)
    found = paid(cost, epsilon=1e-3, iterations=20_000, tolerance=1e-6)
    np.testing.assert_allclose(found, exact, atol=3e-4)


@pytest.mark.parametrize("n, m, spread", [(300, 270, 1.0), (40, 600, 2.0), (1, 5, 1.0)])
@pytest.mark.parametrize("iterations", [1, 100])
def test_costs_are_those_of_as_many_iterations_on_logarithms(n, m, spread, iterations):
    cost = costs(np.random.default_rng(0), n, m, spread)
    exact = on_logarithms(cost, iterations=iterations)
    np.testing.assert_allclose(paid(cost, iterations=iterations), exact, rtol=1e-4)


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_rows_have_their_masses_whenever_it_stops(iterations):
    """A cost of 1 more for every pair changes no plan: each row pays its mass more."""
    cost = costs(np.random.default_rng(0), 20, 30).astype(np.float64)
    before, after = (paid(x, iterations=iterations) for x in (cost, cost + 1))
    np.testing.assert_allclose(after - before, 1 / 20, rtol=1e-9)


@pytest.mark.parametrize("iterations", [1, 100, 500])
@pytest.mark.parametrize("cost", [opposite_states(), far_apart()], ids=["opposite", "far"])
def test_between_far_points_nothing_overflows_or_vanishes(cost, iterations):
    exact = on_logarithms(cost, iterations=iterations)
    np.testing.assert_allclose(paid(cost, iterations=iterations), exact, rtol=5e-4)
    twice = cost.astype(np.float64)
    np.testing.assert_allclose(paid(twice, iterations=iterations), exact, rtol=1e-10)


def test_a_kernel_in_single_precision_has_nothing_between_far_points():
    """So the cases above are hard ones."""
    heaps, far = (np.exp(-cost / np.float32(0.01)) for cost in (opposite_states(), far_apart()))
    assert (heaps[:60, 15:] == 0).all()
    assert (far == 0).all()


def test_points_without_mass_change_nothing():
    found = paid(far_apart(), more=10)
    np.testing.assert_allclose(found[:-10], paid(far_apart()), rtol=5e-4)
    assert (found[-10:] == 0).all()


def test_it_stops_as_soon_as_little_mass_is_misplaced():
    cost = costs(np.random.default_rng(0), 30, 30)
    exact, tolerances = paid(cost, iterations=5000), np.array([1, 1e-1, 1e-2, 1e-3])
    stopped = [paid(cost, iterations=5000, tolerance=tolerance) for tolerance in tolerances]
    error = np.array([np.abs(x - exact).sum() for x in stopped])
    assert (error < tolerances).all()
    assert (error > 1e-2 * tolerances).all()
