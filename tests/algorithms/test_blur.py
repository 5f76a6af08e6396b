"""Discriminators see features that never change in an episode blurred."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lobsdice.algorithms import LobsDICE
from lobsdice.algorithms.batch import Batch, blurred, pairs
from lobsdice.algorithms.discriminator import Discriminator, ratio_loss
from lobsdice.data.steps import Observations, Transitions

ROWS = 20_000


def batch(noise: list[float] | None) -> Batch:
    s = jnp.zeros((ROWS, 2))
    rows = Transitions(s, jnp.zeros((ROWS, 1)), s + 1)
    blur = None if noise is None else jnp.array(noise)
    return Batch(s[:5], Observations(s, s + 1), rows, blur=blur)


def test_a_blurred_feature_has_noise_of_that_deviation_and_the_same_in_s_and_s_next():
    seen = blurred(batch([0.0, 0.5]), jax.random.key(0), 2.0)
    for rows, other in ((seen.expert, seen.offline), (seen.offline, seen.expert)):
        assert jnp.all(rows.s[:, 0] == 0) and jnp.all(rows.s_next[:, 0] == 1)
        np.testing.assert_allclose(rows.s_next[:, 1] - rows.s[:, 1], 1, atol=1e-6)
        assert float(jnp.std(rows.s[:, 1])) == pytest.approx(1.0, abs=0.02)
        assert not jnp.allclose(rows.s[:, 1], other.s[:, 1])


def test_without_such_features_nothing_changes():
    plain = batch(None)
    assert blurred(plain, jax.random.key(0), 1.0) is plain


def walks(rng: np.random.Generator, count: int, way: float) -> Observations:
    """Steps of walks in one direction. The second feature is a goal, which says nothing."""
    x = rng.normal(size=(count, 10))
    goal = np.repeat(rng.normal(size=(count, 1)), 10, axis=1)
    step = way + 0.1 * rng.normal(size=(count, 10))
    return Observations(*(np.stack([y, goal], 2).reshape(-1, 2) for y in (x, x + step)))


def spread_of_logits(blur: list[float] | None) -> float:
    """The spread of a discriminator over logged steps that are all as good as the demonstrated."""
    rng = np.random.default_rng(0)
    shown, good, bad = walks(rng, 3, 0.5), walks(rng, 40, 0.5), walks(rng, 160, -0.5)
    logs = jax.tree.map(lambda *xs: np.concatenate(xs), good, bad)
    shown = jax.tree.map(lambda x: np.resize(x, logs.s.shape), shown)
    rows = jax.tree.map(jnp.float32, Batch(shown.s, shown, logs, blur=blur and np.array(blur)))
    learner = LobsDICE(width=32)
    adam, net = optax.adam(1e-2), Discriminator(jax.random.key(0), 4, 32)

    def step(carry, key):
        net, state = carry
        expert, offline = learner.seen(None, rows, key)
        gradient = jax.grad(lambda net: ratio_loss(net, expert, offline, floor=1e-3)[0])(net)
        change, state = adam.update(gradient, state)
        return (optax.apply_updates(net, change), state), None

    keys = jax.random.split(jax.random.key(1), 300)
    (net, _), _ = jax.jit(lambda x: jax.lax.scan(step, x, keys))((net, adam.init(net)))
    return float(jnp.std(net(pairs(jax.tree.map(jnp.float32, good)))))


def test_without_blur_a_discriminator_knows_demonstrations_by_their_goals():
    assert spread_of_logits([0.0, 1.0]) < 0.5 * spread_of_logits(None)
