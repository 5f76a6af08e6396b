"""The losses of SMODICE against their equations, and its policy against exact solutions."""

import cvxpy as cp
import numpy as np
import pytest
from algorithms.probe import QUICK, cloned, distance, fit
from algorithms.transcription import (
    advantage,
    assert_losses_are,
    calibrated,
    log_ratio,
    logistic_objective,
    network,
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
from lobsdice.algorithms import SMODICE

each_form = pytest.mark.parametrize("chi2", [False, True], ids=["kl", "chi2"])


def start(key, chi2):
    algorithm, data = SMODICE(width=5, chi2=chi2), noise_data()
    nets = shaken(algorithm.init(key, data.state_size, data.action_space))
    return algorithm, nets, *seven_rows(key)


def chi2_objective(nu, r, b, h):
    """(1-γ) E ν(s0) + E f*(e), f*(e) = e + e²/2 where e > -1, and -1/2 elsewhere."""
    e = advantage(nu, r, b, h)
    conjugate = np.where(e > -1, e + e**2 / 2, -0.5)
    return (1 - h.gamma) * network(nu, b.init)[:, 0].mean() + conjugate.mean()


@each_form
def test_losses_and_gradients_are_those_of_the_equations(chi2, key):
    algorithm, nets, batch, b = start(key, chi2)
    r = log_ratio(calibrated(nets.r), b.offline.s, algorithm.ratio_floor)
    e = advantage(plain(nets.nu), r, b, algorithm)
    assert (e > -1).any() and (e < -1).any()
    weight = np.maximum(e + 1, 0) if chi2 else np.exp(e)

    def of_nu(net):
        if chi2:
            return chi2_objective(net, r, b, algorithm)
        return nu_objective(net, r, b, algorithm, 0.0)

    objectives = {
        "r": ("ratio_loss", lambda net: logistic_objective(net, b.expert.s, b.offline.s)),
        "nu": ("nu_loss", of_nu),
        "policy": ("policy_loss", lambda net: policy_objective(net, weight, b)),
    }
    assert_losses_are(objectives, algorithm, nets, batch, key)


def test_penalties_are_taken_between_states(key):
    algorithm, nets, batch, b = start(key, False)
    metrics = penalised(algorithm, nets, batch, key)
    expected = slope_penalties(nets, b, b.expert.s, b.offline.s, key, algorithm)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6)


def quadratic_program(world):
    """argmax_d E_d[r(s)] - E_{d^I}[(d/d^I - 1)²] / 2 under the flow constraint."""
    mdp, q = world.mdp, world.d_offline
    r = np.log(world.d_expert.sum(1) / q.sum(1))
    d = cp.Variable(q.shape, nonneg=True)
    arriving = mdp.transition.reshape(-1, mdp.states).T @ cp.vec(d, order="C")
    flow = cp.sum(d, axis=1) == (1 - mdp.gamma) * mdp.initial + mdp.gamma * arriving
    divergence = cp.sum_squares(cp.multiply(d - q, q**-0.5)) / 2
    cp.Problem(cp.Maximize(r @ cp.sum(d, axis=1) - divergence), [flow]).solve("CLARABEL")
    assert d.value is not None
    return d.value


def test_the_policy_approaches_the_exact_solution_of_either_divergence():
    worlds = [make_world(seed, deterministic=True) for seed in (2, 11)]
    kl = fit([SMODICE(gamma=0.9, **QUICK)] * 2, worlds, steps=500)
    chi2 = fit([SMODICE(gamma=0.9, chi2=True, **QUICK)] * 2, worlds, steps=500)
    for run, world in enumerate(worlds):
        arguments = (world.mdp, world.d_expert, world.d_offline)
        of_kl = tabular.smodice(*arguments, mix=0.0).occupancy
        of_chi2 = quadratic_program(world)
        assert distance(world, kl, run, of_kl) < 0.05
        assert distance(world, chi2, run, of_chi2) < 0.05
        pairs = tabular.lobsdice(*arguments, mix=0.0).occupancy
        for one, another in [(of_kl, of_chi2), (of_kl, pairs), (of_chi2, pairs)]:
            assert tabular.total_variation(one, another) > 0.1 - 1e-3
            assert tabular.total_variation(cloned(world), one) > 0.1
