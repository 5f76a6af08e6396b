"""Occupancies and values of finite MDPs against explicit sums, and estimates from counts."""

import numpy as np
import pytest
import scipy.sparse as sp
from tabular.mdps import make_world, sparse

from lobsdice import tabular
from lobsdice.errors import LobsDICEError


def rollout(mdp, policy, steps=400):
    """(1-γ) Σ_t γ^t Pr(s_t = s), by summing over t."""
    chain = np.einsum("sa,sat->st", policy, mdp.transition)
    p, total = mdp.initial, np.zeros(mdp.states)
    for t in range(steps):
        total += (1 - mdp.gamma) * mdp.gamma**t * p
        p = p @ chain
    return total


def test_occupancy_is_the_discounted_sum_of_visits(world):
    d = tabular.occupancy(world.mdp, world.expert)
    np.testing.assert_allclose(d.sum(1), rollout(world.mdp, world.expert), atol=1e-12)
    np.testing.assert_allclose(d / d.sum(1, keepdims=True), world.expert, rtol=1e-10)


def test_pair_occupancy_has_the_occupancy_as_its_first_margin(world):
    d = tabular.occupancy(world.mdp, world.expert)
    np.testing.assert_allclose(tabular.pair_occupancy(world.mdp, d).sum(1), d.sum(1), rtol=1e-12)


def test_undiscounted_occupancy_is_stationary():
    world = make_world(gamma=1.0)
    d = tabular.occupancy(world.mdp, world.expert).sum(1)
    chain = np.einsum("sa,sat->st", world.expert, world.mdp.transition)
    np.testing.assert_allclose(d @ chain, d, atol=1e-12)
    assert d.sum() == pytest.approx(1)


def test_value_of_a_start_is_the_reward_of_the_occupancy(world):
    reward = np.random.default_rng(0).normal(size=(6, 3))
    v = tabular.value(world.mdp, world.expert, reward)
    d = tabular.occupancy(world.mdp, world.expert)
    np.testing.assert_allclose((1 - 0.9) * world.mdp.initial @ v, np.sum(d * reward), rtol=1e-10)


def test_no_policy_beats_the_optimal_one(world):
    reward = np.random.default_rng(0).normal(size=(6, 3))
    q = tabular.optimal_action_value(world.mdp, reward)
    np.testing.assert_allclose(q, tabular.action_value(world.mdp, q.max(1), reward), atol=1e-10)
    best = tabular.value(world.mdp, tabular.greedy(q), reward)
    for action in range(3):
        always = np.tile(np.eye(3)[action], (6, 1))
        assert np.all(tabular.value(world.mdp, always, reward) <= best + 1e-10)


def test_softmax_goes_from_greedy_to_uniform():
    q = np.array([[0.0, 1.0, 3.0]])
    np.testing.assert_allclose(tabular.softmax(q, 1e-3), tabular.greedy(q), atol=1e-12)
    np.testing.assert_allclose(tabular.softmax(q, 1e6), 1 / 3, atol=1e-5)
    np.testing.assert_allclose(tabular.softmax(q, 2.0)[0, 2] / tabular.softmax(q, 2.0)[0, 1], np.e)


def test_total_variation_is_one_for_disjoint_and_zero_for_equal():
    p, q = np.eye(4) / 4, np.roll(np.eye(4) / 4, 1, axis=0)
    assert tabular.total_variation(p, q) == 1
    assert tabular.total_variation(p, p) == 0
    assert tabular.total_variation(sp.csr_matrix(p), sp.csr_matrix(q)) == 1


def test_estimates_are_relative_counts_and_unseen_pairs_stay():
    counts = np.zeros((3, 2, 3))
    counts[0, 0] = [0, 3, 1]
    counts[1, 1, 2] = 0.5
    mdp = tabular.from_counts(counts, [2, 0, 2], 0.9)
    np.testing.assert_allclose(mdp.transition[0, 0], [0, 0.75, 0.25])
    np.testing.assert_array_equal(mdp.transition[0, 1], [1, 0, 0])
    np.testing.assert_array_equal(mdp.transition[2], [[0, 0, 1]] * 2)
    np.testing.assert_allclose(mdp.initial, [0.5, 0, 0.5])
    matrix = sp.csr_matrix(counts.reshape(6, 3))
    estimated = tabular.from_counts(matrix, [2, 0, 2], 0.9)
    np.testing.assert_allclose(estimated.transition.toarray(), mdp.transition.reshape(6, 3))


def test_negative_counts_are_an_error():
    with pytest.raises(LobsDICEError, match="counts must not have negative"):
        tabular.from_counts(-np.ones((2, 1, 2)), [1, 0], 0.9)


def test_sparse_mdps_have_the_same_occupancies_and_values(world):
    mdp, reward = sparse(world.mdp), np.random.default_rng(0).normal(size=(6, 3))
    d = tabular.occupancy(world.mdp, world.expert)
    np.testing.assert_allclose(tabular.occupancy(mdp, world.expert), d, atol=1e-14)
    np.testing.assert_allclose(
        tabular.pair_occupancy(mdp, d).toarray(), tabular.pair_occupancy(world.mdp, d), atol=1e-14
    )
    np.testing.assert_allclose(
        tabular.optimal_action_value(mdp, reward),
        tabular.optimal_action_value(world.mdp, reward),
        atol=1e-10,
    )


def test_batches_of_mdps_have_batches_of_occupancies(world):
    other = make_world(seed=9)
    mdp = tabular.MDP(
        np.stack([world.mdp.transition, other.mdp.transition]),
        np.stack([world.mdp.initial, other.mdp.initial]),
        0.9,
    )
    d = tabular.occupancy(mdp, np.stack([world.expert, other.expert]))
    np.testing.assert_allclose(d[1], tabular.occupancy(other.mdp, other.expert), atol=1e-14)
