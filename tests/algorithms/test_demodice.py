"""The losses of DemoDICE against their equations, and its policy against exact solutions."""

import jax
import numpy as np
import pytest
from algorithms.probe import QUICK, cloned, distance, fit
from algorithms.transcription import (
    advantage,
    assert_losses_are,
    calibrated,
    log_ratio,
    logistic_objective,
    nu_objective,
    penalised,
    plain,
    policy_objective,
    seven_rows,
    shaken,
    slope_penalties,
    slopes,
)
from worlds import make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import DemoDICE
from lobsdice.data.prepare import Observations


@pytest.fixture
def setting(key):
    algorithm, data = DemoDICE(width=5, alpha=0.3), noise_data()
    batch, b = seven_rows(key)
    # Demonstrations without actions are of no account to it.
    batch = batch._replace(expert=jax.tree.map(lambda x: x + 9, batch.expert))
    shown = np.hstack([b.labelled.s, b.labelled.a]), np.hstack([b.offline.s, b.offline.a])
    nets = shaken(algorithm.init(key, data.state_size, data.action_space))
    return algorithm, nets, batch, b, *shown


def test_losses_and_gradients_are_those_of_the_equations(setting, key):
    algorithm, nets, batch, b, expert, offline = setting
    r = log_ratio(calibrated(nets.r), offline, algorithm.ratio_floor)
    weight = np.exp(advantage(plain(nets.nu), r, b, algorithm) / 1.3)
    objectives = {
        "r": ("ratio_loss", lambda net: logistic_objective(net, expert, offline)),
        "nu": ("nu_loss", lambda net: nu_objective(net, r, b, algorithm, 0.3)),
        "policy": ("policy_loss", lambda net: policy_objective(net, weight, b)),
    }
    assert_losses_are(objectives, algorithm, nets, batch, key)


def test_penalties_are_taken_between_labelled_and_offline_rows(setting, key):
    algorithm, nets, batch, b, expert, offline = setting
    metrics = penalised(algorithm, nets, batch, key)
    shown = b._replace(expert=Observations(b.labelled.s, b.labelled.s_next))
    expected = slope_penalties(nets, shown, expert, offline, key, algorithm)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6)


def test_discrete_actions_are_told_apart(key):
    """Demonstrated and recorded rows with the same states, which differ in actions alone."""
    algorithm, data = DemoDICE(width=5), noise_data(discrete=True)
    nets = algorithm.init(key, data.state_size, data.action_space)
    batch, _ = seven_rows(key, discrete=True)
    assert batch.labelled is not None
    other = batch._replace(labelled=batch.labelled._replace(a=1 - batch.labelled.a))
    losses = [slopes(algorithm, nets, x, key)[1]["ratio_loss"] for x in (batch, other)]
    assert losses[0] != losses[1]


def test_the_policy_approaches_the_exact_solution():
    """Also where two actions lead to the same state, of which only actions tell what to do."""
    kinds = [(4, {"deterministic": True}), (1, {"merging": True}), (4, {"merging": True})]
    worlds = [make_world(seed, actions=3, **kind) for seed, kind in kinds]
    state = fit([DemoDICE(gamma=0.9, **QUICK)] * 3, worlds, steps=600)
    for run, world in enumerate(worlds):
        arguments = (world.mdp, world.d_labelled, world.d_offline)
        aim = tabular.demodice(*arguments, mix=0.0).occupancy
        assert distance(world, state, run, aim) < 0.05
        assert tabular.total_variation(cloned(world), aim) > 0.1
        observed = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, mix=0.0).occupancy
        assert run == 0 or tabular.total_variation(observed, aim) > 0.1
