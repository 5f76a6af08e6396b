"""Rewards and their sums along episodes, against loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from lobsdice.equations.rewards import (
    log_discounted_means,
    log_nearness,
    nearest_reward,
    return_span,
    transport_reward,
)

LENGTHS = (4, 1, 7)
LAST = np.isin(np.arange(12), np.cumsum(LENGTHS) - 1)


def test_published_rewards_of_seabo_and_otr():
    d = jnp.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(nearest_reward(d, 3, 1.0), np.exp(-0.5 * np.array(d) / 3), rtol=1e-6)
    np.testing.assert_allclose(transport_reward(d, 1.0), 5 * np.exp(-5 * np.array(d)), rtol=1e-6)
    np.testing.assert_allclose(log_nearness(d, 2.0), [0, 0, -1])


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.998, 1.0])
def test_discounted_means_are_those_of_a_loop_over_each_episode(gamma):
    rng = np.random.default_rng(0)
    x, beyond = rng.uniform(0.1, 2, (2, 12))
    expected = np.empty(12)
    for t in reversed(range(12)):
        later = beyond[t] if LAST[t] else expected[t + 1]
        expected[t] = (1 - gamma) * x[t] + gamma * later
    found = log_discounted_means(jnp.log(x), jnp.log(beyond), jnp.asarray(LAST), gamma)
    np.testing.assert_allclose(jnp.exp(found), expected, rtol=1e-5)


def test_discounted_means_are_tailos_sums_up_to_a_factor():
    """W_t = Σ_k γ^k exp(1.25 R_{t+k}), where the last value goes on for ever."""
    gamma, r = 0.9, np.random.default_rng(1).normal(size=7)
    forever = np.append(r, np.full(400, r[-1]))
    w = [sum(gamma**k * np.exp(1.25 * x) for k, x in enumerate(forever[t:])) for t in range(7)]
    log_x, last = jnp.asarray(1.25 * r), jnp.arange(7) == 6
    found = log_discounted_means(log_x, log_x, last, gamma)
    np.testing.assert_allclose(jnp.exp(found) / (1 - gamma), w, rtol=1e-4)


def test_discounted_means_of_huge_ratios_are_finite():
    log_x = jnp.array([300.0, -300.0, 500.0])
    found = log_discounted_means(log_x, log_x, jnp.array([False, False, True]), 0.99)
    np.testing.assert_allclose(found, 500 + np.log([0.99**2, 0.99, 1]), atol=1e-3)


def test_the_span_of_returns_is_that_of_whole_episodes():
    reward = np.random.default_rng(2).normal(size=12)
    sums = [part.sum() for part in np.split(reward, np.cumsum(LENGTHS)[:-1])]
    span = return_span(jnp.asarray(reward), jnp.asarray(LAST))
    np.testing.assert_allclose(span, max(sums) - min(sums), rtol=1e-5)
