"""What policy heads say of actions: how they draw, average and describe them."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import trapezoid

from lobsdice.algorithms.networks import (
    MLP,
    Categorical,
    TanhGaussian,
    lacking,
    make_policy,
    without,
)
from lobsdice.data.spaces import Box, Discrete

ACTIONS = [(Box((-1.0, -1.0), (1.0, 1.0)), np.zeros((1, 2))), (Discrete(5), np.array([0]))]


@pytest.fixture
def states(key):
    return jax.random.normal(key, (4, 3))


@pytest.fixture
def gaussian(key):
    return tame(TanhGaussian(key, 3, 2, 8))


def tame(head):
    """The head with smaller weights, whose actions stay off the bounds."""
    return jax.tree.map(lambda x: 0.5 * x, head)


@pytest.fixture
def categorical(key):
    return Categorical(key, 3, 5, 8)


def test_drawn_actions_have_the_heads_own_moments(gaussian, states, key):
    draws = jax.vmap(lambda k: gaussian.sample(states, k))(jax.random.split(key, 20_000))
    assert (abs(draws) <= 1).all()
    inner = jnp.arctanh(draws)
    mean, log_std = gaussian.moments(states)
    np.testing.assert_allclose(inner.mean(0), mean, atol=0.05 * np.exp(log_std).max())
    np.testing.assert_allclose(inner.std(0), np.exp(log_std), rtol=0.03)


def test_drawn_actions_follow_the_density(states, key):
    """E[f(a)] by draws is ∫ f(a) exp(log_prob) da."""
    head = tame(TanhGaussian(key, 3, 1, 8))
    draws = jax.vmap(lambda k: head.sample(states, k))(jax.random.split(key, 20_000))
    grid = jnp.linspace(-0.998, 0.998, 4001)
    density = jnp.exp(jax.vmap(lambda a: head.log_prob(states, jnp.full((4, 1), a)))(grid))
    for f in (jnp.square, lambda a: a > 0.3):
        weights = jnp.broadcast_to(f(grid)[:, None], density.shape) * density
        expected = trapezoid(np.asarray(weights), np.asarray(grid), axis=0)
        np.testing.assert_allclose(f(draws).mean((0, 2)), expected, atol=0.02)


def test_drawn_actions_are_differentiable_in_the_policy(gaussian, states, key):
    """da/dmean = 1 - a² for the same noise."""
    last = gaussian.net.biases[-1]

    def total(shift):
        bias = last.at[:2].add(shift)
        moved = jax.tree.map(lambda x: bias if x is last else x, gaussian)
        return moved.sample(states, key)

    a = gaussian.sample(states, key)
    np.testing.assert_allclose(jax.jacfwd(total)(0.0), 1 - a**2, rtol=1e-9)


def test_drawn_categories_have_the_heads_frequencies(categorical, states, key):
    draws = jax.vmap(lambda k: categorical.sample(states, k))(jax.random.split(key, 20_000))
    frequencies = jax.nn.one_hot(draws, 5).mean(0)
    np.testing.assert_allclose(frequencies, jax.nn.softmax(categorical.net(states)), atol=0.015)


def value(features, log_prob):
    """Some function of actions and their log probabilities."""
    return jnp.sum(features**2 * (1 + jnp.arange(features.shape[1]))[None], axis=1) - log_prob


def test_the_expectation_over_categories_is_the_sum_of_all(categorical, states, key):
    found = categorical.expect(states, value, key)
    probs = np.asarray(jax.nn.softmax(categorical.net(states)))
    np.testing.assert_allclose(found, (probs * (np.arange(1, 6) - np.log(probs))).sum(1))
    assert found.shape == (4,)
    np.testing.assert_array_equal(found, categorical.expect(states, value, jax.random.key(1)))


def test_the_expectation_over_real_actions_is_one_draw(gaussian, states, key):
    a = gaussian.sample(states, key)
    expected = value(a, gaussian.log_prob(states, a))
    np.testing.assert_allclose(gaussian.expect(states, value, key), expected)


def test_errors_are_squared_distances_or_wrong_guesses(gaussian, categorical, states):
    middle = jnp.tanh(gaussian.moments(states)[0])
    np.testing.assert_allclose(gaussian.error(states, middle), 0, atol=1e-15)
    shifted = middle + jnp.broadcast_to(jnp.array([0.1, 0.3]), middle.shape)
    np.testing.assert_allclose(gaussian.error(states, shifted), (0.01 + 0.09) / 2)
    likeliest = jnp.argmax(categorical.net(states), axis=1)
    other = likeliest.at[1].set((likeliest[1] + 1) % 5)
    np.testing.assert_array_equal(categorical.error(states, likeliest), np.zeros(4))
    np.testing.assert_array_equal(categorical.error(states, other), [0, 1, 0, 0])


def test_features_are_actions_or_one_hot_whatever_the_weights(gaussian, categorical):
    a = jnp.array([[0.5, -1.0]])
    np.testing.assert_array_equal(gaussian.features(a), a)
    np.testing.assert_array_equal(categorical.features(jnp.array([3, 0])), np.eye(5)[[3, 0]])
    slope = jax.grad(lambda head: head.features(jnp.array([3])).sum())(categorical)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(slope))


@pytest.mark.parametrize(("space", "action"), ACTIONS)
def test_the_size_of_features_is_known_beforehand(space, action, key):
    head = make_policy(key, 3, space, 8)
    assert head.features(jnp.asarray(action)).shape == (1, space.feature_size)


# ---- Rows without an action ----


@pytest.mark.parametrize(("space", "action"), ACTIONS)
def test_a_row_without_an_action_counts_nowhere(space, action, states, key):
    """The other rows are as they would be without it, to the last bit."""
    head = tame(make_policy(key, 3, space, 8))
    a = jnp.tile(jnp.asarray(action), (4, 1) if action.ndim == 2 else 4)
    missing = jnp.array([False, True, False, True])
    some = without(a, missing)
    np.testing.assert_array_equal(lacking(a), False)
    np.testing.assert_array_equal(lacking(some), missing)
    for function in (head.log_prob, head.error):
        known, found = function(states, a), function(states, some)
        np.testing.assert_array_equal(found, jnp.where(missing, 0, known))
    zero = jnp.zeros_like(head.features(a))
    np.testing.assert_array_equal(
        head.features(some), jnp.where(missing[:, None], zero, head.features(a))
    )


@pytest.mark.parametrize(("space", "action"), ACTIONS)
def test_a_row_without_an_action_has_no_slope(space, action, states, key):
    head = tame(make_policy(key, 3, space, 8))
    a = jnp.tile(jnp.asarray(action), (4, 1) if action.ndim == 2 else 4)

    def total(head, states, a):
        return head.log_prob(states, a).sum() + head.error(states, a).sum()

    def slope(rows, a):
        return jax.grad(total)(head, states[rows], a[rows])

    none = slope(slice(None), without(a, jnp.ones(4, bool)))
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(none))
    half = slope(slice(None), without(a, jnp.arange(4) >= 2))
    first = slope(slice(2), a)
    for x, y in zip(jax.tree.leaves(half), jax.tree.leaves(first), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)
    assert any((leaf != 0).any() for leaf in jax.tree.leaves(first))


def test_weights_begin_as_he_normal_ones(key):
    """The layers share one draw; each is what JAX's own initialiser would give it."""
    sizes = (3, 8, 8, 1)
    keys = jax.random.split(key, 3)
    init = jax.nn.initializers.he_normal()
    for weights, k, shape in zip(MLP(key, *sizes).weights, keys, pairwise(sizes), strict=True):
        np.testing.assert_allclose(weights, init(k, shape), rtol=1e-6)
