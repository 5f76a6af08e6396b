"""The losses of LobsDICE against their equations, and its fixed points against exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.probe import (
    at_actions,
    at_pairs,
    at_states,
    averages,
    distance,
    exact_form,
    exponent,
    fit,
    single_or_averaged,
    weighted,
    weighted_actions,
)
from algorithms.transcription import (
    advantage,
    assert_losses_are,
    calibrated,
    log_ratio,
    network,
    nu_objective,
    penalised,
    plain,
    policy_objective,
    ratio_objective,
    seven_rows,
    shaken,
    slope_penalties,
)
from worlds import make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import LobsDICE
from lobsdice.equations.ratio import between, bounded_log_ratio, logistic_loss

#: Training is done once for all tests of this file.
pytestmark = pytest.mark.xdist_group("lobsdice")

# ---- The same numbers for both ----


each_form = pytest.mark.parametrize("averaged", [True, False], ids=["averaged", "single"])


def start(key, **options):
    algorithm, data = LobsDICE(width=5, **options), noise_data()
    nets = shaken(algorithm.init(key, data.state_size, data.action_space))
    return algorithm, nets, *seven_rows(key)


def sharpened(weight, most, least_share):
    """The power of the weights, the largest of nine, at which enough of them are effective."""
    powers = np.linspace(1, most, 9)
    enough = [np.mean(weight**x) ** 2 / np.mean(weight ** (2 * x)) >= least_share for x in powers]
    return weight ** max([1, *powers[enough]])


@each_form
@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_losses_and_gradients_are_those_of_the_equations(averaged, sharpness, key):
    """They are the paper's if weights are neither averaged nor sharpened."""
    least_share = 0.45 if averaged else 0.2  # so that the power is neither the least nor the most
    options = {"averaged": averaged, "sharpness": sharpness, "least_share": least_share}
    algorithm, nets, batch, b = start(key, **options)
    alpha = algorithm.alpha
    r = log_ratio(
        calibrated(nets.r), np.hstack([b.offline.s, b.offline.s_next]), algorithm.ratio_floor
    )
    seen = np.hstack([b.offline.s, b.offline.a])
    objectives = {"r": ("ratio_loss", lambda net: ratio_objective(net, b))}
    if averaged:
        aim = r + algorithm.gamma * network(plain(nets.nu), b.offline.s_next)[:, 0]

        def of_q(net):
            return ((network(net, seen)[:, 0] - aim) ** 2).mean()

        objectives["q"] = ("average_loss", of_q)
        # The average replaces the value of e, and nothing in its slope.
        r = r + network(plain(nets.q), seen)[:, 0] - aim
    weight = np.exp(advantage(plain(nets.nu), r, b, algorithm) / (1 + alpha))
    weight = sharpened(weight, sharpness, least_share)
    objectives |= {
        "nu": ("nu_loss", lambda net: nu_objective(net, r, b, algorithm, alpha)),
        "policy": ("policy_loss", lambda net: policy_objective(net, weight, b)),
    }
    assert_losses_are(objectives, algorithm, nets, batch, key)


def test_penalties_are_taken_at_the_points_and_slopes_they_should_be(key):
    algorithm, nets, batch, b = start(key)
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
    assert (before.r, before.nu, before.q, before.policy) == (3e-4, 0, 0, 0)
    assert (after.r, after.nu, after.q, after.policy) == (0, 3e-4, 1e-3, 3e-4)


def test_with_gamma_one_initial_states_do_not_count(key):
    algorithm, nets, batch, _ = start(key, gamma=1.0)
    loss = algorithm.loss(nets, batch, key, penalised=0)[1]["nu_loss"]
    other = batch._replace(init=batch.init + 1)
    assert loss == algorithm.loss(nets, other, key, penalised=0)[1]["nu_loss"]


# ---- Trained networks against exact solutions ----

WORLDS = [make_world(0), make_world(2, gamma=1.0)]
forms = ("averaged", "single")


@pytest.fixture(scope="module")
def exact():
    return {form: [exact_form(form, world) for world in WORLDS] for form in forms}


def algorithms(form):
    return [single_or_averaged(form, world.mdp.gamma) for world in WORLDS]


@pytest.fixture(scope="module", params=forms)
def trained(request):
    """A form, with all its networks trained jointly."""
    return request.param, fit(algorithms(request.param), WORLDS, steps=700, batch_size=256)


@pytest.fixture(scope="module", params=forms)
def given(request):
    """A form, trained with the true log ratios in the discriminator's place."""
    # The gap to the optimum falls with the batch size. Averages are less noisy than samples.
    steps, batch_size = (500, 1024) if request.param == "single" else (400, 512)
    options = {"steps": steps, "batch_size": batch_size, "ratios": True}
    return request.param, fit(algorithms(request.param), WORLDS, **options)


def test_the_weighted_data_approach_the_exact_solution(trained, exact):
    form, state = trained
    for run, (world, solution) in enumerate(zip(WORLDS, exact[form], strict=True)):
        size, gamma = world.mdp.states, world.mdp.gamma
        nu, r = at_states(state.nets.nu, run, size), at_pairs(state.nets.r, run, size)
        without = exponent(world.log_ratio, 0 * nu, gamma)
        if form == "single":
            d, plain_d = (weighted(world, x) for x in (exponent(r, nu, gamma), without))
            assert np.abs((nu - nu.mean()) - (solution.nu - solution.nu.mean())).max() < 0.15
        else:
            q = at_actions(state.nets.q, run, world)
            found = (q - nu[:, None]) / 1.1
            d, plain_d = (weighted_actions(world, x) for x in (found, averages(world, without)))
        assert tabular.total_variation(d, solution.occupancy) < 0.05
        # Not by chance: without ν it would not be that close.
        assert tabular.total_variation(plain_d, solution.occupancy) > 0.05


def test_the_policy_approaches_that_of_the_exact_solution(trained, exact):
    form, state = trained
    for run, (world, solution) in enumerate(zip(WORLDS, exact[form], strict=True)):
        aim = tabular.occupancy(world.mdp, solution.policy)
        assert distance(world, state, run, aim) < 0.05
        assert tabular.total_variation(world.d_offline, aim) > 0.1


def test_with_true_log_ratios_the_critic_reaches_the_convex_optimum(given, exact):
    """The dual objective at the network's ν, on all data, is the exact minimum, nearly."""
    form, state = given
    for run, (world, solution) in enumerate(zip(WORLDS, exact[form], strict=True)):
        gamma = world.mdp.gamma
        nu = at_states(state.nets.nu, run, world.mdp.states)
        x, masses = exponent(world.log_ratio, nu, gamma), world.d_pairs
        if form == "averaged":
            x, masses = averages(world, x), world.d_offline
        objective = (1 - gamma) * world.mdp.initial @ nu
        objective += 1.1 * np.log(np.sum(masses * np.exp(x)))
        assert -1e-9 < objective - -solution.dual < 1e-3
