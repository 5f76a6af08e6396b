"""The linear program of PW-DICE against a conic solver, known distances, and tasks that end."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from tabular.mdps import World, conic, goal_and_pits, make_world, sparse

from lobsdice import tabular
from lobsdice.errors import LobsDICEError


def line_cost(states: int) -> np.ndarray:
    """|s - t|: the states are points on a line."""
    place = np.arange(states)
    return abs(place[:, None] - place) * 1.0


def line_distance(p, q) -> float:
    """The Wasserstein distance on a line, from the sums of both distributions."""
    return float(abs(np.cumsum(p) - np.cumsum(q)).sum())


def elsewhere(seed: int) -> World:
    """A world whose expert lives in another one, so that it cannot be matched."""
    return make_world(seed)._replace(d_expert=make_world(seed + 50, gamma=0.7).d_expert)


def solve(world: World, cost=None) -> tabular.Transport:
    return tabular.pwdice(world.mdp, world.d_expert, world.d_offline, cost=cost)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_the_distance_is_that_of_a_conic_solver(gamma):
    world = elsewhere(0)
    world = world._replace(mdp=tabular.MDP(world.mdp.transition, world.mdp.initial, gamma))
    rng = np.random.default_rng(0)
    cost = rng.random((6, 6))
    aim = world.d_expert.sum(1)

    plan = cp.Variable((6, 6), nonneg=True)

    def sides(d) -> list[Any]:
        return [cp.sum(plan, axis=1) == cp.sum(d, axis=1), cp.sum(plan, axis=0) == aim]

    found = solve(world, cost)
    value, _ = conic(world, lambda d, pairs: cp.sum(cp.multiply(plan, cost)), also=sides)
    np.testing.assert_allclose(found.primal, value, atol=1e-8)
    assert found.converged and abs(found.gap) < 1e-9 and found.primal > 0.01


def test_the_plan_leads_from_the_occupancy_of_the_policy_to_the_expert():
    world = elsewhere(1)
    found = solve(world, line_cost(6))
    np.testing.assert_allclose(found.plan.sum(1), found.occupancy.sum(1), atol=1e-9)
    np.testing.assert_allclose(found.plan.sum(0), world.d_expert.sum(1), atol=1e-9)
    np.testing.assert_allclose(
        tabular.occupancy(world.mdp, found.policy), found.occupancy, atol=1e-9
    )


def test_on_a_line_the_distance_is_the_known_one_and_no_policy_is_nearer():
    world = elsewhere(2)
    found, aim = solve(world, line_cost(6)), world.d_expert.sum(1)
    distance = line_distance(found.occupancy.sum(1), aim)
    np.testing.assert_allclose(found.primal, distance, atol=1e-9)
    rng = np.random.default_rng(0)
    for policy in rng.dirichlet(0.5 * np.ones(3), size=(50, 6)):
        other = tabular.occupancy(world.mdp, policy).sum(1)
        assert line_distance(other, aim) >= found.dual - 1e-12


def test_without_costs_the_distance_is_the_total_variation():
    world = elsewhere(3)
    found = solve(world)
    apart = 0.5 * abs(found.occupancy.sum(1) - world.d_expert.sum(1)).sum()
    np.testing.assert_allclose(found.primal, apart, atol=1e-9)


def test_an_expert_of_the_same_world_is_matched_exactly(world):
    found = solve(world, line_cost(6))
    assert abs(found.primal) < 1e-9
    np.testing.assert_allclose(found.occupancy.sum(1), world.d_expert.sum(1), atol=1e-8)


def test_distances_lead_near_an_expert_who_is_never_where_the_data_is():
    """A corridor of ten states; the expert stands at its end, the logs only reach the middle."""
    to = np.stack([np.maximum(np.arange(10) - 1, 0), np.minimum(np.arange(10) + 1, 9)], axis=1)
    mdp = tabular.MDP(np.eye(10)[to], np.eye(10)[0], 0.9)
    d_offline = np.zeros((10, 2))
    d_offline[:5] = 0.1  # from state 4 it is possible to go on to 5, where nothing is known
    d_expert = np.zeros((10, 10))
    d_expert[9, 9] = 1
    found = tabular.pwdice(mdp, d_expert, d_offline, cost=line_cost(10))
    assert (found.policy[:5].argmax(1) == 1).all()
    # 0.9^5 of the mass comes to the fifth state, and stays.
    np.testing.assert_allclose(found.occupancy.sum(1)[5], 0.9**5)
    blind = tabular.pwdice(mdp, d_expert, d_offline)
    np.testing.assert_allclose(blind.primal, 1.0)


@pytest.mark.parametrize("terminal", ["restart", "stay"])
def test_a_goal_is_reached_and_pits_are_avoided(terminal):
    task = goal_and_pits()
    world = task.world(terminal)
    y, x = np.divmod(np.arange(16), 4)
    cost = abs(y[:, None] - y) + abs(x[:, None] - x)
    found = solve(world, cost)
    assert abs(found.primal) < 1e-9 and found.converged
    assert task.success(found.policy) > 1 - 1e-6 > task.success(world.behaviour)


def test_actions_that_are_not_in_the_data_are_not_taken():
    world = elsewhere(4)
    d_offline = world.d_offline.copy()
    d_offline[:, 0] = 0
    found = tabular.pwdice(
        world.mdp, world.d_expert, d_offline / d_offline.sum(), cost=line_cost(6)
    )
    assert (found.occupancy[:, 0] == 0).all() and found.primal > solve(world, line_cost(6)).primal


def test_sparse_transitions_give_the_same_distance():
    world = elsewhere(5)
    pairs = sp.csr_matrix(world.d_expert)
    found = tabular.pwdice(sparse(world.mdp), pairs, world.d_offline, cost=line_cost(6))
    np.testing.assert_allclose(found.primal, solve(world, line_cost(6)).primal, atol=1e-9)


def test_what_does_not_fit_is_refused_by_a_sentence(world):
    arguments = (world.mdp, world.d_expert, world.d_offline)
    with pytest.raises(LobsDICEError, match=r"cost must have the shape \(6, 6\)"):
        tabular.pwdice(*arguments, cost=np.ones((6, 3)))
    with pytest.raises(LobsDICEError, match="cost must have finite entries"):
        tabular.pwdice(*arguments, cost=-line_cost(6))
    with pytest.raises(LobsDICEError, match="d_offline must sum to one"):
        tabular.pwdice(world.mdp, world.d_expert, 2 * world.d_offline)
    many = tabular.MDP(np.stack([world.mdp.transition] * 2), np.stack([world.mdp.initial] * 2), 0.9)
    with pytest.raises(LobsDICEError, match="one MDP at a time"):
        tabular.pwdice(many, world.d_expert, world.d_offline)
