"""The losses of ReCOIL and of our state-only form against the authors', and exact fixed points."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.actors import critic, log_likelihood, numbers, seen
from algorithms.probe import cloned, distance, fit
from algorithms.transcription import assert_same_slope, network, plain, seven_rows, shaken, slopes
from worlds import World, ending_world, make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import ReCOIL, ReCOILfO
from lobsdice.equations.recoil import scale_level, soft_maximum_loss

each_form = pytest.mark.parametrize("kind", [ReCOIL, ReCOILfO])


# ---- The same numbers as the authors' losses ----


def transcribed(algorithm, nets, b):
    """The losses of V, of one critic and of the policy, for the constants of the authors' code."""
    shown, rows = b.expert, b.offline
    done, done_shown = rows.s_next, shown.s_next
    if isinstance(algorithm, ReCOIL):
        shown = b.labelled
        done, done_shown = seen(rows.a), seen(shown.a)
    target = numbers(nets.target)
    low, low_shown = (
        np.min([critic(q, s, d) for q in target], axis=0)
        for s, d in ((rows.s, done), (shown.s, done_shown))
    )

    def value(net, s):
        return network(net, s)[:, 0]

    v, v_next = (value(plain(nets.value), s) for s in (rows.s, rows.s_next))

    def of_value(net):
        z = np.minimum((low - value(net, rows.s)) / algorithm.temperature, 7)
        z_shown = (low_shown - value(plain(nets.value), shown.s)) / algorithm.temperature
        at_first = np.minimum((low - v) / algorithm.temperature, 7)
        largest = max(at_first.max(), np.minimum(z_shown, 7).max(), -1)
        return (np.exp(z - largest) - z * np.exp(-largest) - np.exp(-largest)).mean()

    def of_critic(net):
        y = -2 + 0.99 * v_next
        of_expert = 0.5 * (critic(net, shown.s, done_shown) - 200) ** 2
        return of_expert.mean() + (0.5 * (critic(net, rows.s, done) - y) ** 2).mean()

    def of_policy(net):
        w = np.minimum(np.exp(3 * (low - v)), 100)
        return -(w * log_likelihood(net, rows.s, rows.a)).mean()

    return of_value, of_critic, of_policy


@each_form
@pytest.mark.parametrize("space", ["box", "finite"])
def test_losses_and_gradients_are_those_of_the_authors(kind, space, key):
    discrete = space == "finite"
    algorithm, data = kind(width=5), noise_data(discrete=discrete)
    batch, b = seven_rows(key, discrete=discrete)
    fresh = [
        algorithm.init(k, data.state_size, data.action_space) for k in (key, jax.random.key(9))
    ]
    nets = shaken(fresh[0]._replace(target=fresh[1].critic))
    found, metrics = slopes(algorithm, nets, batch, key)
    of_value, of_critic, of_policy = transcribed(algorithm, nets, b)
    np.testing.assert_allclose(metrics["value_loss"], of_value(plain(nets.value)), rtol=1e-6)
    np.testing.assert_allclose(metrics["critic_loss"], sum(map(of_critic, numbers(nets.critic))))
    np.testing.assert_allclose(metrics["policy_loss"], of_policy(plain(nets.policy)))
    rng = np.random.default_rng(0)
    assert_same_slope(found.value, of_value, nets.value, rng)
    assert_same_slope(found.policy, of_policy, nets.policy, rng)
    for slope, net in zip(found.critic, nets.critic, strict=True):
        assert_same_slope(slope, of_critic, net, rng)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(found.target))


def test_the_least_loss_has_the_soft_maximum():
    """E[e^z] = 1 there; and beyond the bound a row still pulls, unlike in the authors' code."""
    q, temperature = jnp.array([1.0, 4.0, -2.0]), 2.0
    best = temperature * jnp.log(jnp.mean(jnp.exp(q / temperature)))

    def loss(v, q=q):
        return jnp.mean(soft_maximum_loss((q - v) / temperature, jnp.zeros(())))

    np.testing.assert_allclose(jax.grad(loss)(best), 0, atol=1e-12)
    far = jax.grad(loss)(0.0, jnp.array([400.0]))
    np.testing.assert_allclose(far, -(np.exp(7) - 1) / temperature, rtol=1e-6)


@pytest.mark.parametrize(
    "logged, shown, level",
    [
        ([-40.0, -3.0], [-9.0, -2.0], -1.0),
        ([-2.0, -2.0], [0.5, -0.5], 0.5),
        ([1.0, 3.0], [2.0, 2.0], 3.0),
        ([90.0, 0.0], [0.0, 8.0], 7.0),
    ],
)
def test_the_scale_is_that_of_the_largest_z_of_both_data_sets_from_minus_1_to_7(
    logged, shown, level
):
    assert scale_level(jnp.array(logged), jnp.array(shown)) == level


# ---- Trained networks against exact fixed points ----

#: For small worlds with γ = 0.9: scores within ±20, and weights that keep below their bound.
QUICK: dict[str, Any] = {
    "gamma": 0.9,
    "best": 20.0,
    "temperature": 5.0,
    "beta": 0.3,
    "tau": 0.05,
    "width": 32,
    "critic_rate": 1e-2,
    "value_rate": 1e-2,
    "policy_rate": 3e-3,
}


def exact_policy(world: World, d_expert: np.ndarray, *, pairs: bool) -> np.ndarray:
    """π[s, a] at the fixed point of tables; d_expert is over (s, a), or over `pairs` (s, s')."""
    mdp, q = world.mdp, world.d_offline
    logged = world.d_pairs if pairs else q
    behaviour = logged / logged.sum(1, keepdims=True)
    v, scores = np.zeros(mdp.states), np.zeros(logged.shape)
    for _ in range(500):
        follows = v[None, :] if pairs else mdp.transition @ v
        both = d_expert + logged
        scores = (20 * d_expert + logged * (0.9 * follows - 2)) / np.where(both > 0, both, 1)
        v = 5 * np.log((behaviour * np.exp(scores / 5)).sum(1))
    w = np.minimum(np.exp(0.3 * (scores - v[:, None])), 100)
    d = q * (mdp.transition @ w[..., None])[..., 0] if pairs else q * w
    return d / d.sum(1, keepdims=True)


def test_with_actions_the_policy_is_that_of_the_fixed_point():
    world = make_world(0)
    trained = fit([ReCOIL(**QUICK)], [world], steps=1000)
    aim = tabular.occupancy(world.mdp, exact_policy(world, world.d_labelled, pairs=False))
    assert distance(world, trained, 0, aim) < 0.05
    assert tabular.total_variation(cloned(world), aim) > 0.1


def test_from_observation_the_policy_is_that_of_the_fixed_point_and_knows_goals_from_pits():
    world = ending_world("stay")
    trained = fit([ReCOILfO(**QUICK)], [world], steps=1000, batch_size=192, terminal="stay")
    policy = exact_policy(world, world.d_expert, pairs=True)
    policy[list(world.final)] = 0.25
    aim = tabular.occupancy(world.mdp, policy)
    assert distance(world, trained, 0, aim) < 0.05
    assert tabular.total_variation(cloned(world), aim) > 0.1
    ends = np.eye(9)[[8, 2, 6]]  # the goal and the pits
    value = jax.tree.map(lambda x: x[0], trained.nets.value)(jnp.asarray(ends))
    assert value[0] > jnp.max(value[1:]) + 1


def test_labels_are_needed_by_the_form_with_actions_alone():
    assert ReCOIL().needs_labels and not ReCOILfO().needs_labels


def test_the_log_weights_are_those_of_cloning(key):
    algorithm, data = ReCOILfO(width=5), noise_data()
    batch, b = seven_rows(key)
    nets = shaken(algorithm.init(key, data.state_size, data.action_space))
    low = np.min([critic(q, b.offline.s, b.offline.s_next) for q in numbers(nets.target)], axis=0)
    gap = low - network(plain(nets.value), b.offline.s)[:, 0]
    w = algorithm.log_weights(nets, batch.offline)
    np.testing.assert_allclose(w, np.minimum(3 * gap, np.log(100)))
    hot = replace(algorithm, beta=1e6).log_weights(nets, batch.offline)
    assert jnp.max(hot) <= np.log(100) + 1e-9
