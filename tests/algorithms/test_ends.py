"""One-hot networks on recorded episodes that end, against exact solutions of each reading.

The grid has a goal and two pits. The exact methods count the same rows as networks draw.
"""

from typing import NamedTuple

import numpy as np
import pytest
from algorithms.probe import (
    QUICK,
    at_actions,
    at_pairs,
    at_states,
    averages,
    cloned,
    distance,
    exact_form,
    exponent,
    fit,
    single_or_averaged,
    weighted,
    weighted_actions,
)
from worlds import GOAL, World, ending_world

from lobsdice import tabular
from lobsdice.algorithms import SMODICE, DemoDICE
from lobsdice.training.engine import State

READINGS = ("restart", "stay")


def slippery(terminal: str) -> World:
    return ending_world(terminal, slip=0.3)


class Case(NamedTuple):
    form: str
    worlds: list[World]
    state: State


CASES = [(form, terminal) for form in ("averaged", "single") for terminal in READINGS]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, marks=pytest.mark.xdist_group("-".join(case)), id="-".join(case))
        for case in CASES
    ],
)
def case(request) -> Case:
    """LobsDICE of one form, all networks trained jointly on each world."""
    form, terminal = request.param
    worlds = [slippery(terminal)]
    if form == "averaged":
        # Without random moves, and without a discount where that is possible.
        gamma = 1.0 if terminal == "restart" else 0.9
        worlds.append(ending_world(terminal, gamma=gamma))
    algorithms = [single_or_averaged(form, world.mdp.gamma) for world in worlds]
    # Under `stay` ν is larger, and takes longer.
    steps = 1000 if request.param == ("single", "stay") else 600
    options = {"steps": steps, "batch_size": 192, "terminal": terminal}
    return Case(form, worlds, fit(algorithms, worlds, **options))


def test_the_weighted_data_approach_the_exact_solution(case):
    for run, world in enumerate(case.worlds):
        aim = exact_form(case.form, world)
        nets, gamma, size = case.state.nets, world.mdp.gamma, world.mdp.states
        nu, r = at_states(nets.nu, run, size), at_pairs(nets.r, run, size)
        without = exponent(world.log_ratio, 0 * nu, gamma)
        if case.form == "single":
            d, plain = (weighted(world, x) for x in (exponent(r, nu, gamma), without))
            assert np.abs((nu - nu.mean()) - (aim.nu - aim.nu.mean())).max() < 0.15
        else:
            found = (at_actions(nets.q, run, world) - nu[:, None]) / 1.1
            d, plain = (weighted_actions(world, x) for x in (found, averages(world, without)))
        assert tabular.total_variation(d, aim.occupancy) < 0.05
        assert tabular.total_variation(plain, aim.occupancy) > 0.05


def test_the_policy_approaches_that_of_the_exact_solution(case):
    """It reaches the goal as often."""
    for run, world in enumerate(case.worlds):
        aim = tabular.occupancy(world.mdp, exact_form(case.form, world).policy)
        assert distance(world, case.state, run, aim) < 0.05
        assert tabular.total_variation(cloned(world), aim) > 0.3
        assert aim[GOAL].sum() > 2 * cloned(world)[GOAL].sum()


@pytest.mark.parametrize("terminal", READINGS)
def test_with_true_log_ratios_the_critic_reaches_the_convex_optimum(terminal):
    """The dual objective at the network's ν, on all data, is the exact minimum, nearly."""
    world = slippery(terminal)
    gamma, algorithm = world.mdp.gamma, single_or_averaged("single", world.mdp.gamma)
    options = {"steps": 400, "batch_size": 512, "terminal": terminal}
    state = fit([algorithm], [world], ratios=True, **options)
    nu = at_states(state.nets.nu, 0, world.mdp.states)
    x = exponent(world.log_ratio, nu, gamma)
    objective = (1 - gamma) * world.mdp.initial @ nu
    objective += 1.1 * np.log(np.sum(world.d_pairs * np.exp(x)))
    assert -1e-9 < objective + exact_form("single", world).dual < 1e-3


@pytest.mark.parametrize(("kind", "terminal"), [(SMODICE, "restart"), (DemoDICE, "stay")])
def test_its_relatives_approach_their_exact_solutions(kind, terminal):
    world = ending_world(terminal)
    state = fit([kind(gamma=0.9, **QUICK)], [world], steps=400, terminal=terminal)
    if kind is SMODICE:
        aim = tabular.smodice(world.mdp, world.d_expert, world.d_offline, mix=0.0).occupancy
    else:
        aim = tabular.demodice(world.mdp, world.d_labelled, world.d_offline, mix=0.0).occupancy
    assert distance(world, state, 0, aim) < 0.05
    assert tabular.total_variation(cloned(world), aim) > 0.3
