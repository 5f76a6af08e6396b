"""What policy heads say of actions: how they draw, average and describe them."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.integrate import trapezoid

from lobsdice.algorithms.networks import (
    MLP,
    Categorical,
    TanhGaussian,
    TanhMixture,
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


@pytest.fixture
def mixture(key):
    return stirred(TanhMixture(key, 3, 2, 8, 3))


def stirred(head):
    """The head with random numbers, for fresh components have equal shares in all states."""
    leaves, tree = jax.tree.flatten(head)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    drawn = [0.3 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(tree, drawn)


def test_one_component_is_the_gaussian_head_bit_for_bit(key):
    space = ACTIONS[0][0]
    one, usual = make_policy(key, 3, space, 8, 1), TanhGaussian(key, 3, 2, 8)
    assert type(one) is TanhGaussian
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(usual), strict=True)
    assert all((x == y).all() for x, y in pairs)
    assert type(make_policy(key, 3, Discrete(5), 8, 4)) is Categorical


def test_the_density_of_a_mixture_integrates_to_one(states, key):
    head = jax.tree.map(lambda x: 0.5 * x, stirred(TanhMixture(key, 3, 1, 8, 4)))
    # Evenly spaced before the tanh, where the density is broad. Actions end at the margin.
    inner = jnp.linspace(-3.79, 3.79, 4001)
    grid = jnp.tanh(inner)
    log_density = jax.vmap(lambda a: head.log_prob(states, jnp.full((4, 1), a)))(grid)
    found = trapezoid(np.asarray(jnp.exp(log_density)), np.asarray(grid), axis=0)
    np.testing.assert_allclose(found, 1, atol=0.005)


def test_a_mixture_of_equal_components_is_one_gaussian(gaussian, states, key):
    weight, bias = gaussian.net.weights[-1], gaussian.net.biases[-1]
    order = jnp.array([0, 1, 0, 1, 2, 3, 2, 3])  # two means, then two deviations
    none = jnp.zeros((weight.shape[0], 2))
    twice = TanhMixture(key, 3, 2, 8, 2)
    twice.net.weights[:] = [*gaussian.net.weights[:-1], jnp.hstack([weight[:, order], none])]
    twice.net.biases[:] = [*gaussian.net.biases[:-1], jnp.concatenate([bias[order], none[0]])]
    a = gaussian.sample(states, key)
    np.testing.assert_allclose(twice.log_prob(states, a), gaussian.log_prob(states, a))
    np.testing.assert_allclose(twice.likeliest(states), gaussian.likeliest(states))
    np.testing.assert_allclose(twice.error(states, a), gaussian.error(states, a))


def test_draws_and_expectations_of_a_mixture_follow_its_density(mixture, states, key):
    keys = jax.random.split(key, 20_000)
    draws = jax.vmap(lambda k: mixture.sample(states, k))(keys)
    drawn = jax.vmap(lambda a: value(a, mixture.log_prob(states, a)))(draws)
    summed = jax.vmap(lambda k: mixture.expect(states, value, k))(keys)
    assert summed.shape == (20_000, 4)
    error = np.asarray(drawn.std(0) + summed.std(0)) / 20_000**0.5
    assert (abs(np.asarray(drawn.mean(0) - summed.mean(0))) < 5 * error).all()
    assert (summed.std(0) < drawn.std(0)).all()  # components are summed, not drawn


def test_expectations_of_a_mixture_move_its_shares(mixture, states, key):
    def total(head):
        return jnp.sum(head.expect(states, lambda a, _: jnp.sum(a, axis=1), key))

    slope = jax.grad(total)(mixture).net.biases[-1]
    assert slope.shape == (3 * 5,) and (slope[-3:] != 0).all()
    np.testing.assert_allclose(slope[-3:].sum(), 0, atol=1e-12)  # shares sum to one


def test_the_likeliest_action_of_a_mixture_is_that_of_the_largest_share(mixture, states):
    """Not of the highest density, which a narrow and rare component has."""
    shares, mean, log_std = mixture.parts(states)
    assert mean.shape == log_std.shape == (4, 3, 2)
    np.testing.assert_allclose(jnp.exp(shares).sum(1), 1)
    which = np.argmax(shares, axis=1)
    np.testing.assert_allclose(
        mixture.likeliest(states), np.tanh(np.asarray(mean)[np.arange(4), which])
    )


def test_rows_without_an_action_never_count_in_a_mixture(mixture, states):
    none = jnp.full((4, 2), jnp.nan)
    assert (mixture.log_prob(states, none) == 0).all() and (mixture.error(states, none) == 0).all()
    slopes = jax.grad(lambda head: mixture_sum(head, states, none))(mixture)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(slopes))


def mixture_sum(head, states, a):
    return jnp.sum(head.log_prob(states, a))


def test_a_mixture_finds_a_mode_where_one_gaussian_takes_the_middle():
    """Half of the actions are 0.8, half are -0.8, in the same states."""
    rows = jnp.repeat(jax.random.normal(jax.random.key(1), (32, 3)), 2, axis=0)
    actions = jnp.where(jnp.arange(64)[:, None] % 2 == 0, 0.8, -0.8)
    space = Box((-1.0,), (1.0,))

    def learned(components) -> Any:
        head: Any = make_policy(jax.random.key(0), 3, space, 32, components)
        adam = optax.adam(0.01)

        def step(carry: Any, _):
            head, state = carry
            slope = jax.grad(lambda head: -jnp.mean(head.log_prob(rows, actions)))(head)
            updates, state = adam.update(slope, state)
            return (optax.apply_updates(head, updates), state), None

        (head, _), _ = jax.lax.scan(step, (head, adam.init(head)), None, length=1000)
        return head

    one, two = learned(1), learned(2)
    assert (abs(one.likeliest(rows)) < 0.1).all()
    np.testing.assert_allclose(abs(two.likeliest(rows)), 0.8, atol=0.05)
    assert jnp.mean(two.log_prob(rows, actions)) > jnp.mean(one.log_prob(rows, actions)) + 2


def test_the_components_of_a_fresh_mixture_are_apart_and_have_equal_shares(states, key):
    """Those that are alike would stay alike, or one would take all rows."""
    shares, mean, _ = TanhMixture(key, 3, 2, 8, 3).parts(states)
    np.testing.assert_allclose(jnp.exp(shares), 1 / 3)
    places = jnp.broadcast_to(jnp.array([-1.0, 0.0, 1.0])[None, :, None], mean.shape)
    np.testing.assert_allclose(jnp.sort(mean, axis=1), places, atol=1e-12)
