"""The losses of OPOLO against their equations, and its policies against exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.actors import critic, expect, log_likelihood, noise_of, numbers, seen, setting
from algorithms.probe import fit, policy_table
from algorithms.transcription import (
    assert_same_slope,
    calibrated,
    log_ratio,
    ratio_objective,
    slopes,
)
from worlds import make_world

from lobsdice import tabular
from lobsdice.algorithms import OPOLO

pytestmark = pytest.mark.xdist_group("opolo")
ALGORITHM = OPOLO(width=5)
each_space = pytest.mark.parametrize("space", ["box", "finite"])


def objective(policy, q, r, b, key, space):
    """(1-γ) E Q(s0, π) + log E exp(r + γ Q(s', π) - Q(s,a))."""
    k_init, k_next, _ = jax.random.split(key, 3)

    def value(s, key):
        noise = noise_of(key, len(s), space)
        return expect(policy, s, lambda action, _: critic(q, s, action), noise)

    e = r + 0.99 * value(b.offline.s_next, k_next) - critic(q, b.offline.s, seen(b.offline.a))
    return 0.01 * value(b.init, k_init).mean() + np.log(np.exp(e).mean())


def transcribed(nets, b, key, space, inferred):
    """Each network's loss as a function of that network alone."""
    k_critic, k_policy, *_ = jax.random.split(key, 4)
    frozen = {name: numbers(net) for name, net in nets._asdict().items()}
    r = log_ratio(
        calibrated(nets.r), np.hstack([b.offline.s, b.offline.s_next]), ALGORITHM.ratio_floor
    )

    def policy(net):
        reached = [objective(net, q, r, b, k_policy, space) for q in frozen["target"]]
        return -min(reached) - 0.1 * log_likelihood(net, b.expert.s, inferred).mean()

    def inverse(net):
        return -log_likelihood(net, np.hstack([b.offline.s, b.offline.s_next]), b.offline.a).mean()

    return {
        "r": lambda net: ratio_objective(net, b),
        "critic": lambda net: objective(frozen["policy"], net, r, b, k_critic, space),
        "policy": policy,
        "inverse": inverse,
    }


@pytest.fixture
def case(key, space):
    nets, batch, b = setting(ALGORITHM, key, space)
    pairs = jnp.concatenate([batch.expert.s, batch.expert.s_next], axis=1)
    inferred = np.asarray(nets.inverse.sample(pairs, jax.random.split(key, 4)[2]))
    return nets, batch, transcribed(nets, b, key, space, inferred)


@each_space
def test_losses_are_the_numbers_of_the_equations(case, key):
    nets, batch, expected = case
    _, metrics = slopes(ALGORITHM, nets, batch, key)
    ours = numbers(nets.critic)
    np.testing.assert_allclose(metrics["critic_loss"], sum(map(expected["critic"], ours)))
    policy_loss = metrics["policy_loss"] + metrics["cloning_loss"]
    np.testing.assert_allclose(policy_loss, expected["policy"](numbers(nets.policy)))
    np.testing.assert_allclose(metrics["ratio_loss"], expected["r"](numbers(nets.r)))
    np.testing.assert_allclose(metrics["inverse_loss"], expected["inverse"](numbers(nets.inverse)))


@each_space
def test_gradients_are_those_of_the_equations(case, key):
    nets, batch, expected = case
    gradient, _ = slopes(ALGORITHM, nets, batch, key)
    rng = np.random.default_rng(0)
    for name in ("r", "inverse", "policy"):
        assert_same_slope(getattr(gradient, name), expected[name], getattr(nets, name), rng)
    for slope, net in zip(gradient.critic, nets.critic, strict=True):
        assert_same_slope(slope, expected["critic"], net, rng)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient.target))


@each_space
def test_the_objective_is_unmoved_by_a_constant(key, space):
    """So the twins' levels mean nothing, and only their objectives can be compared."""
    nets, batch, _ = setting(ALGORITHM, key, space)
    r = jnp.zeros(7)
    q = nets.critic.one
    lifted = ALGORITHM._objective(nets.policy, lambda x: q(x) + 3.0, r, batch, key)
    np.testing.assert_allclose(lifted, ALGORITHM._objective(nets.policy, q, r, batch, key))


# ---- Trained policies against exact solutions ----

WORLDS = [make_world(seed, deterministic=True) for seed in range(3)]


@pytest.fixture(scope="module")
def trained():
    # The policy moves slower than its critics: as fast as they are, the two go round in circles.
    algorithm = OPOLO(
        gamma=0.9,
        tau=0.2,
        cloning_weight=0.0,
        ratio_penalty=0.0,
        ratio_floor=1e-6,
        ratio_rate=3e-3,
        critic_rate=5e-3,
        policy_rate=5e-4,
        width=32,
        penalty_every=25,
    )
    return fit([algorithm] * 3, WORLDS, steps=800)


def test_the_policy_approaches_the_exact_solution(trained):
    for run in range(3):
        world = WORLDS[run]
        exact = tabular.opolo(world.mdp, world.d_expert, world.d_offline, mix=0.0).occupancy
        ours = tabular.occupancy(world.mdp, policy_table(trained, run, world.mdp.states))
        cloned = tabular.bc(world.mdp, world.d_offline).occupancy
        assert tabular.total_variation(ours, exact) < 0.05
        assert tabular.total_variation(cloned, exact) > 0.1
