"""The losses of DemoDICEfO against their equations, and its policy against exact solutions."""

import jax
import numpy as np
import pytest
from algorithms.probe import QUICK, cloned, distance, fit
from algorithms.transcription import (
    advantage,
    assert_losses_are,
    calibrated,
    cloning_objective,
    log_ratio,
    logistic_objective,
    moments,
    nu_objective,
    penalised,
    plain,
    policy_objective,
    seven_rows,
    shaken,
    slope_penalties,
)
from worlds import make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import DemoDICEfO


@pytest.fixture
def setting(key):
    algorithm, data = DemoDICEfO(width=8, alpha=0.3), noise_data()
    nets = shaken(algorithm.init(key, data.state_size, data.action_space))
    batch, b = seven_rows(key)
    mean, log_std = moments(plain(nets.inverse), np.hstack([b.expert.s, b.expert.s_next]))
    noise = jax.random.normal(jax.random.split(key)[0], mean.shape)
    drawn = np.tanh(mean + np.exp(log_std) * np.asarray(noise))
    return (
        algorithm,
        nets,
        batch,
        b,
        np.hstack([b.expert.s, drawn]),
        np.hstack([b.offline.s, b.offline.a]),
    )


def test_losses_and_gradients_are_those_of_the_equations(setting, key):
    algorithm, nets, batch, b, expert, offline = setting
    r = log_ratio(calibrated(nets.r), offline, algorithm.ratio_floor)
    weight = np.exp(advantage(plain(nets.nu), r, b, algorithm) / 1.3)
    ones, pairs = np.ones(7), np.hstack([b.offline.s, b.offline.s_next])
    objectives = {
        "inverse": ("inverse_loss", lambda net: cloning_objective(net, ones, pairs, b.offline.a)),
        "r": ("ratio_loss", lambda net: logistic_objective(net, expert, offline)),
        "nu": ("nu_loss", lambda net: nu_objective(net, r, b, algorithm, 0.3)),
        "policy": ("policy_loss", lambda net: policy_objective(net, weight, b)),
    }
    assert_losses_are(objectives, algorithm, nets, batch, key)


def test_penalties_are_taken_between_inferred_and_recorded_actions(setting, key):
    algorithm, nets, batch, b, expert, offline = setting
    metrics = penalised(algorithm, nets, batch, key)
    k_penalties = jax.random.split(key)[1]
    expected = slope_penalties(nets, b, expert, offline, k_penalties, algorithm)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6)


def test_the_policy_approaches_the_exact_solution_and_the_expert_if_that_can_be_had():
    """Where two actions lead to the same state it is not DemoDICE's; where none do, and nothing
    holds it to the offline data, it is the expert."""
    worlds = [
        make_world(4, actions=3, merging=True),
        make_world(5, actions=3, merging=True),
        make_world(4, actions=3, deterministic=True, realisable=True),
    ]
    alphas = [0.1, 0.1, 0.0]
    kinds = [DemoDICEfO(gamma=0.9, alpha=x, inverse_rate=3e-3, **QUICK) for x in alphas]
    state = fit(kinds, worlds, steps=600)
    for run, (world, alpha) in enumerate(zip(worlds, alphas, strict=True)):
        mdp, d_offline = world.mdp, world.d_offline
        solve = tabular.demodice_from_observation
        aim = solve(mdp, world.d_expert, d_offline, alpha=alpha, mix=0.0).occupancy
        assert distance(world, state, run, aim) < 0.05
        assert tabular.total_variation(cloned(world), aim) > 0.1
        told = tabular.demodice(mdp, world.d_labelled, d_offline, alpha=alpha, mix=0.0).occupancy
        assert run == 2 or tabular.total_variation(told, aim) > 0.1
    assert distance(worlds[2], state, 2, worlds[2].d_labelled) < 0.05
