"""The losses of LobsDICE against their equations, and its fixed points against exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.probe import QUICK, at_pairs, at_states, fit, policy_table, weighted
from algorithms.transcription import (
    advantage,
    assert_losses_are,
    log_ratio,
    nu_objective,
    penalised,
    plain,
    policy_objective,
    ratio_objective,
    seven_rows,
    slope_penalties,
)
from worlds import make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import LobsDICE
from lobsdice.equations.ratio import between, bounded_log_ratio, logistic_loss

#: Training is done once for all tests of this file.
pytestmark = pytest.mark.xdist_group("lobsdice")

# ---- The same numbers for both ----


@pytest.fixture
def setting(key):
    algorithm = LobsDICE(width=5)
    data = noise_data()
    return algorithm, algorithm.init(key, data.state_size, data.action_space), seven_rows(key)[0]


def test_losses_and_gradients_are_those_of_the_papers_equations(setting, key):
    algorithm, nets, batch = setting
    b = jax.tree.map(np.asarray, batch)
    alpha = algorithm.alpha
    r = log_ratio(plain(nets.r), np.hstack([b.offline.s, b.offline.s_next]), algorithm.ratio_floor)
    weight = np.exp(advantage(plain(nets.nu), r, b, algorithm) / (1 + alpha))
    objectives = {
        "r": ("ratio_loss", lambda net: ratio_objective(net, b)),
        "nu": ("nu_loss", lambda net: nu_objective(net, r, b, algorithm, alpha)),
        "policy": ("policy_loss", lambda net: policy_objective(net, weight, b)),
    }
    assert_losses_are(objectives, algorithm, nets, batch, key)


def test_penalties_are_taken_at_the_points_and_slopes_they_should_be(setting, key):
    algorithm, nets, batch = setting
    b = jax.tree.map(np.asarray, batch)
    expert, offline = (
        np.hstack([b.expert.s, b.expert.s_next]),
        np.hstack([b.offline.s, b.offline.s_next]),
    )
    metrics = penalised(algorithm, nets, batch, key)
    for name, value in slope_penalties(nets, b, expert, offline, key, algorithm).items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6)


# ---- Pieces ----


def test_the_log_ratio_is_the_logit_in_the_middle_and_bounded_at_the_ends():
    floor = 1e-3
    logits = jnp.array([-60.0, -1.0, 0.0, 1.0, 60.0])
    r = bounded_log_ratio(logits, floor)
    bound = np.log(1 + 1 / floor)
    np.testing.assert_allclose(r[jnp.array([0, 4])], [-bound, bound], rtol=1e-6)
    np.testing.assert_allclose(r[1:4], logits[1:4], atol=4e-3)
    np.testing.assert_allclose(bounded_log_ratio(logits[1:4], 0.0), logits[1:4], rtol=1e-9)


def test_the_logistic_loss_is_least_at_the_log_density_ratio(key):
    """On three points with known masses, at h = log p/q, and nowhere near it lower."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    copies = 10 * np.array([p, q])
    rows = [np.repeat(np.arange(3), c.astype(int)) for c in copies]

    def loss(h):
        return logistic_loss(h[rows[0]], h[rows[1]])

    best = jnp.log(p / q)
    np.testing.assert_allclose(jax.grad(loss)(best), 0, atol=1e-12)
    for direction in jax.random.normal(key, (5, 3)):
        assert loss(best + 0.1 * direction) > loss(best)


def test_points_between_lie_on_the_segments(key):
    x, y = jax.random.normal(key, (2, 50, 3))
    z = between(key, x, y)
    u = (z - y) / (x - y)
    np.testing.assert_allclose(u, jnp.broadcast_to(u[:, :1], u.shape), rtol=1e-6)
    assert (u >= 0).all() and (u <= 1).all() and u.std() > 0.2


def test_pretraining_freezes_the_critic_and_the_policy_first_and_the_discriminator_after():
    algorithm = LobsDICE(pretrain=100)
    before, after = algorithm.rates(jnp.int32(99)), algorithm.rates(jnp.int32(100))
    assert (before.r, before.nu, before.policy) == (3e-4, 0, 0)
    assert (after.r, after.nu, after.policy) == (0, 3e-4, 3e-4)


def test_with_gamma_one_initial_states_do_not_count(setting, key):
    _, nets, batch = setting
    algorithm = LobsDICE(width=5, gamma=1.0)
    loss = algorithm.loss(nets, batch, key, penalised=0)[1]["nu_loss"]
    other = batch._replace(init=batch.init + 1)
    assert loss == algorithm.loss(nets, other, key, penalised=0)[1]["nu_loss"]


# ---- Trained networks against exact solutions ----

WORLDS = [make_world(0), make_world(1), make_world(2, gamma=1.0)]


@pytest.fixture(scope="module")
def exact():
    return [tabular.single_sample(w.mdp, w.d_expert, w.d_offline, mix=0.0) for w in WORLDS]


def algorithms():
    return [LobsDICE(gamma=world.mdp.gamma, **QUICK) for world in WORLDS]


@pytest.fixture(scope="module")
def trained():
    """All three networks, trained jointly."""
    return fit(algorithms(), WORLDS, steps=1000, batch_size=256)


@pytest.fixture(scope="module")
def given():
    """ν and the policy, trained with the true log ratios in the discriminator's place."""
    # The gap to the optimum falls with the batch size: 1e-3 with 256 rows, 7e-5 with 4096.
    return fit(algorithms(), WORLDS, steps=700, batch_size=1024, ratios=True)


def exponent(r, nu, gamma):
    """A_ν(s,s') / (1+α)."""
    return (r + gamma * nu[None, :] - nu[:, None]) / 1.1


def test_the_weighted_data_approach_the_exact_solution(trained, exact):
    for run in range(3):
        world, size = WORLDS[run], WORLDS[run].mdp.states
        nu, r = at_states(trained.nets.nu, run, size), at_pairs(trained.nets.r, run, size)
        d = weighted(world, exponent(r, nu, world.mdp.gamma))
        assert tabular.total_variation(d, exact[run].occupancy) < 0.05
        assert np.abs((nu - nu.mean()) - (exact[run].nu - exact[run].nu.mean())).max() < 0.15
        # Not by chance: without ν it would not be that close.
        without = weighted(world, exponent(world.log_ratio, 0 * nu, world.mdp.gamma))
        assert tabular.total_variation(without, exact[run].occupancy) > 0.05


def test_the_policy_approaches_that_of_the_exact_solution(trained, exact):
    for run in range(3):
        mdp = WORLDS[run].mdp
        aim = tabular.occupancy(mdp, exact[run].policy)
        ours = tabular.occupancy(mdp, policy_table(trained, run, mdp.states))
        assert tabular.total_variation(ours, aim) < 0.05
        assert tabular.total_variation(WORLDS[run].d_offline, aim) > 0.1


def test_with_true_log_ratios_the_critic_reaches_the_convex_optimum(given, exact):
    """The dual objective at the network's ν, on all data, is the exact minimum, nearly."""
    for run in range(3):
        world, gamma = WORLDS[run], WORLDS[run].mdp.gamma
        nu = at_states(given.nets.nu, run, world.mdp.states)
        x = exponent(world.log_ratio, nu, gamma)
        objective = (1 - gamma) * world.mdp.initial @ nu
        objective += 1.1 * np.log(np.sum(world.d_pairs * np.exp(x)))
        assert -1e-9 < objective - -exact[run].dual < 1e-3
