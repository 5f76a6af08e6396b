"""IQL's equations: known minimisers and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lobsdice.equations.iql import advantage_weights, bellman_target, expectile_loss


@pytest.mark.parametrize("tau", [0.5, 0.7, 0.9])
def test_the_loss_is_least_at_the_expectile(tau):
    """There the pull of the values above is to that of those below as 1-τ to τ."""
    q = np.random.default_rng(0).normal(size=200)
    low, high, v = q.min(), q.max(), 0.0
    for _ in range(60):
        v = (low + high) / 2
        pull = tau * np.maximum(q - v, 0).sum() - (1 - tau) * np.maximum(v - q, 0).sum()
        low, high = (v, high) if pull > 0 else (low, v)
    slope = jax.grad(lambda v: jnp.mean(expectile_loss(jnp.asarray(q) - v, tau)))(v)
    assert abs(slope) < 1e-5
    if tau == 0.5:
        np.testing.assert_allclose(v, q.mean(), rtol=1e-5)


def test_weights_grow_with_the_advantage_up_to_a_hundred():
    found = advantage_weights(jnp.array([-1.0, 0.0, 1.0, 50.0, 1e30]), 3.0)
    np.testing.assert_allclose(found, [np.exp(-3), 1, np.exp(3), 100, 100], rtol=1e-5)


def test_nothing_is_added_where_nothing_follows():
    reward, v = jnp.array([1.0, 2.0]), jnp.array([10.0, 10.0])
    np.testing.assert_allclose(bellman_target(reward, v, jnp.array([1.0, 0.0]), 0.9), [10, 2])
