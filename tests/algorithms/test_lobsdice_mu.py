"""The two-variable objective against its equations, against `LobsDICE` and exact solutions."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.probe import QUICK, at_pairs, at_states, fit, policy_table, weighted
from algorithms.transcription import (
    assert_same_slope,
    calibrated,
    double,
    log_ratio,
    network,
    penalised,
    plain,
    policy_objective,
    ratio_objective,
    shaken,
    slope,
    slopes,
)
from worlds import make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import LobsDICE, LobsDICEMu
from lobsdice.algorithms.lobsdice import Nets as SingleNets
from lobsdice.equations.duals import closed_form_mu
from lobsdice.equations.ratio import bounded_log_ratio
from lobsdice.training.draws import draw_batch, pack

# ---- A transcription of the equations in plain NumPy ----


def seen(b, h):
    return b.offline.s if h.state_matching else np.hstack([b.offline.s, b.offline.s_next])


def estimate(mu, nu, b, h):
    """ê = -μ(s,s') + γ ν(s') - ν(s), and μ."""
    at_pair = network(mu, seen(b, h))[:, 0]
    return -at_pair + h.gamma * network(nu, b.offline.s_next)[:, 0] - network(nu, b.offline.s)[
        :, 0
    ], at_pair


def objective(mu, nu, r_net, b, h):
    """Eq. (20), or eq. (51) with single samples."""
    e, at_pair = estimate(mu, nu, b, h)
    r = log_ratio(r_net, seen(b, h), h.ratio_floor)
    initial = (1 - h.gamma) * network(nu, b.init)[:, 0].mean()
    if h.lagrange:
        terms = np.exp(r + at_pair - 1) + h.alpha * np.exp(e / h.alpha - 1)
        return initial + terms.mean()
    pairs = np.log(np.exp(r + at_pair).mean())
    return initial + pairs + h.alpha * np.log(np.exp(e / h.alpha).mean())


# ---- The same numbers for both ----

BASE = LobsDICEMu(width=5, alpha=0.5)
FORMS = {
    "fenchel": BASE,
    "lagrange": replace(BASE, lagrange=True),
    "states": replace(BASE, state_matching=True),
}
each_form = pytest.mark.parametrize("algorithm", FORMS.values(), ids=FORMS)


@pytest.fixture
def batch(key):
    pool, slices = pack([noise_data()])
    batch = draw_batch(key, pool, jax.tree.map(lambda x: x[0], slices), 7)
    return double(batch)


def start(algorithm, key):
    return shaken(algorithm.init(key, 3, noise_data().action_space))


@each_form
def test_losses_and_gradients_are_those_of_the_equations(algorithm, batch, key):
    nets = start(algorithm, key)
    b = jax.tree.map(np.asarray, batch)
    r, policy = calibrated(nets.r), plain(nets.policy)
    mu, nu = (plain(net) for net in nets.multipliers)
    weight = np.exp(estimate(mu, nu, b, algorithm)[0] / algorithm.alpha)

    def of_ratio(net):
        if not algorithm.state_matching:
            return ratio_objective(net, b)
        expert, offline = (rows._replace(s_next=np.zeros((7, 0))) for rows in (b.expert, b.offline))
        return ratio_objective(net, b._replace(expert=expert, offline=offline))

    gradient, metrics = slopes(algorithm, nets, batch, key)
    np.testing.assert_allclose(metrics["ratio_loss"], of_ratio(plain(nets.r)))
    np.testing.assert_allclose(metrics["dual_loss"], objective(mu, nu, r, b, algorithm))
    np.testing.assert_allclose(metrics["policy_loss"], policy_objective(policy, weight, b))
    rng = np.random.default_rng(0)
    assert_same_slope(gradient.r, of_ratio, nets.r, rng)
    assert_same_slope(
        gradient.multipliers.mu,
        lambda net: objective(net, nu, r, b, algorithm),
        nets.multipliers.mu,
        rng,
    )
    assert_same_slope(
        gradient.multipliers.nu,
        lambda net: objective(mu, net, r, b, algorithm),
        nets.multipliers.nu,
        rng,
    )
    assert_same_slope(
        gradient.policy, lambda net: policy_objective(net, weight, b), nets.policy, rng
    )


def test_the_penalty_on_mu_is_its_squared_slope_at_offline_pairs_and_between(batch, key):
    nets = start(BASE, key)
    b = jax.tree.map(np.asarray, batch)
    k_mu = jax.random.split(key, 3)[2]
    x = np.hstack([b.expert.s, b.expert.s_next])[:4]  # half of seven rows
    y = np.hstack([b.offline.s, b.offline.s_next])[:4]
    u = np.asarray(jax.random.uniform(k_mu, (len(x), 1)))
    points = np.vstack([y, y + u * (x - y)])
    mu_slope = slope(lambda z: network(plain(nets.multipliers.mu), z)[:, 0], points)
    metrics = penalised(BASE, nets, batch, key)
    expected = 1e-4 * (np.linalg.norm(mu_slope, axis=1) ** 2).mean()
    np.testing.assert_allclose(metrics["mu_penalty"], expected, rtol=1e-6)


# ---- Against the objective of ν alone ----


def test_minimised_over_mu_it_is_the_objective_of_nu_alone(batch, key):
    """At μ_ν the Fenchel forms agree, the weights agree, and no other μ is better."""
    nets = start(BASE, key)
    r, nu, policy = nets.r, nets.multipliers.nu, nets.policy
    bounded = bounded_log_ratio(
        r(jnp.concatenate([batch.offline.s, batch.offline.s_next], axis=-1)), BASE.ratio_floor
    )
    best = closed_form_mu(
        bounded, nu(batch.offline.s), nu(batch.offline.s_next), gamma=BASE.gamma, alpha=BASE.alpha
    )

    def metrics(mu):
        two = nets._replace(multipliers=nets.multipliers._replace(mu=lambda _: mu))
        return BASE.loss(two, batch, key, penalised=0)[1]

    single = LobsDICE(width=5, alpha=BASE.alpha, averaged=False, sharpness=1.0, stretch=1)
    _, alone = single.loss(SingleNets(r, nu, None, policy), batch, key, penalised=0)
    np.testing.assert_allclose(metrics(best)["dual_loss"], alone["nu_loss"], rtol=1e-9)
    np.testing.assert_allclose(metrics(best)["policy_loss"], alone["policy_loss"], rtol=1e-9)
    np.testing.assert_allclose(jax.grad(lambda mu: metrics(mu)["dual_loss"])(best), 0, atol=1e-12)
    for direction in jax.random.normal(key, (5, 7)):
        assert metrics(best + 0.1 * direction)["dual_loss"] > alone["nu_loss"]


# ---- Trained networks against exact solutions ----

QUICK_MU: dict[str, Any] = QUICK | {"mu_rate": 3e-3, "mu_penalty": 0.0}


def check(world, state, solution, mu):
    """Weighted data and policy are those of the solution, but for 0.05 in total variation."""
    mdp = world.mdp
    nu = at_states(state.nets.multipliers.nu, 0, mdp.states)
    e = -mu + mdp.gamma * nu[None, :] - nu[:, None]
    assert tabular.total_variation(weighted(world, e / 0.1), solution.occupancy) < 0.05
    ours = tabular.occupancy(mdp, policy_table(state, 0, mdp.states))
    aim = tabular.occupancy(mdp, solution.policy)
    assert tabular.total_variation(ours, aim) < 0.05
    assert tabular.total_variation(world.d_offline, aim) > 0.1


def test_trained_networks_approach_the_exact_solution():
    world = make_world(0)
    state = fit([LobsDICEMu(gamma=0.9, **QUICK_MU)], [world], steps=700)
    solution = tabular.single_sample(world.mdp, world.d_expert, world.d_offline, mix=0.0)
    check(world, state, solution, at_pairs(state.nets.multipliers.mu, 0, 6))


def test_matching_states_approaches_the_exact_solution_where_nothing_is_random():
    """Appendix B, with deterministic transitions; SMODICE's bound is another problem."""
    world = make_world(4, deterministic=True)
    algorithm = LobsDICEMu(gamma=0.9, state_matching=True, **QUICK_MU)
    state = fit([algorithm], [world], steps=700)
    arguments = (world.mdp, world.d_expert, world.d_offline)
    solution = tabular.lobsdice_state(*arguments, mix=0.0)
    check(world, state, solution, at_states(state.nets.multipliers.mu, 0, 6)[:, None])
    bound = tabular.smodice(*arguments, alpha=0.1, mix=0.0)
    assert tabular.total_variation(bound.occupancy, solution.occupancy) > 0.05
