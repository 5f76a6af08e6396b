"""Sparse MDPs have the same solutions as dense ones, and may be much larger."""

import numpy as np
import pytest
import scipy.sparse as sp
from tabular import mdps
from tabular.mdps import make_world

from lobsdice import tabular
from lobsdice.errors import DataWarning, LobsDICEError


def as_sparse(world):
    return mdps.sparse(world.mdp), sp.csr_matrix(world.d_expert)


@pytest.mark.parametrize(
    "method",
    [tabular.lobsdice, tabular.lobsdice_state, tabular.opolo, tabular.demodice_from_observation],
)
def test_sparse_and_dense_inputs_have_the_same_solution(method):
    world = make_world(seed=1, density=0.3)
    dense = method(world.mdp, world.d_expert, world.d_offline, alpha=0.01)
    mdp, d_expert = as_sparse(world)
    sparse = method(mdp, d_expert, world.d_offline, alpha=0.01)
    np.testing.assert_allclose(sparse.policy, dense.policy, atol=1e-5)
    np.testing.assert_allclose(sparse.primal, dense.primal, atol=1e-9)
    np.testing.assert_allclose(sparse.nu, dense.nu, atol=1e-5)
    assert sparse.converged


def test_the_multipliers_of_pairs_are_sparse_too():
    world = make_world(seed=1, density=0.3)
    mdp, d_expert = as_sparse(world)
    dense = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline)
    sparse = tabular.lobsdice(mdp, d_expert, world.d_offline)
    np.testing.assert_allclose(sparse.mu.toarray(), dense.mu, atol=1e-5)


def test_inverse_dynamics_cloning_is_the_same_for_sparse_mdps():
    world = make_world(seed=1, density=0.3)
    mdp, d_expert = as_sparse(world)
    dense = tabular.bco(world.mdp, world.d_expert, world.d_offline)
    sparse = tabular.bco(mdp, d_expert, world.d_offline)
    np.testing.assert_allclose(sparse.policy, dense.policy, atol=1e-12)
    np.testing.assert_allclose(sparse.occupancy, dense.occupancy, atol=1e-12)


def grid(side, samples, gamma=0.95, seed=0):
    """An estimated grid world with random slips, and pairs of an expert who walks to the centre."""
    rng = np.random.default_rng(seed)
    size = side * side
    y, x = np.divmod(np.arange(size), side)
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))
    clip = [np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1) for dy, dx in moves]
    to = np.stack(clip, axis=1)
    middle = side // 2
    down, right = np.where(y < middle, 2, 3), np.where(x < middle, 0, 1)
    towards = np.where(abs(y - middle) > abs(x - middle), down, right)

    def move(s, a):
        return to[s, np.where(rng.random(s.size) < 0.2, rng.integers(4, size=s.size), a)]

    s, a = rng.integers(size, size=samples), rng.integers(4, size=samples)
    counts = sp.csr_matrix((np.ones(samples), (4 * s + a, move(s, a))), shape=(4 * size, size))
    d_offline = np.bincount(4 * s + a, minlength=4 * size).reshape(size, 4) / samples
    s = rng.integers(size, size=samples)
    pairs = (np.full(samples, 1 / samples), (s, move(s, towards[s])))
    mdp = tabular.from_counts(counts, np.ones(size), gamma)
    return mdp, sp.csr_matrix(pairs, shape=(size, size)), d_offline


def test_a_grid_of_sixteen_hundred_states_is_solved():
    mdp, d_expert, d_offline = grid(40, 16_000)
    with pytest.warns(DataWarning, match="^solved with mix = 0.001"):
        solution = tabular.lobsdice(mdp, d_expert, d_offline, alpha=0.1)
    assert solution.converged and solution.gap < 1e-9 and solution.steps < 30
    assert solution.mix == 1e-3
    own = tabular.occupancy(mdp, solution.policy)
    np.testing.assert_allclose(own, solution.occupancy, atol=1e-12)
    assert 0 < solution.unsupported_expert_mass < 0.2


def test_sparse_problems_report_bad_input(world):
    mdp, d_expert = as_sparse(world)
    with pytest.raises(LobsDICEError, match="d_offline must sum to one"):
        tabular.lobsdice(mdp, d_expert, 2 * world.d_offline)
    with pytest.raises(LobsDICEError, match="gamma below 1"):
        undiscounted = tabular.MDP(mdp.transition, mdp.initial, 1.0)
        tabular.lobsdice(undiscounted, d_expert, world.d_offline)
    with pytest.raises(LobsDICEError, match=r"shape \(S\*A, S\)"):
        tabular.MDP(mdp.transition[:-1], mdp.initial, 0.9)
