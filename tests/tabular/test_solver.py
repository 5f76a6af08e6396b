"""The solver against a conic solver, its certificate, and hard problems."""

from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tabular.mdps import conic, divergence, make_world

from lobsdice import tabular
from lobsdice.errors import DataWarning
from lobsdice.tabular import solver

METHODS = {
    "lobsdice": tabular.lobsdice,
    "lobsdice_state": tabular.lobsdice_state,
    "opolo": tabular.opolo,
    "smodice": tabular.smodice,
    "demodice_from_observation": tabular.demodice_from_observation,
}
ALPHA, MIX = 0.2, 1e-2


def conic_objective(name, world, mix):
    """The method's objective as the paper writes it, for cvxpy."""
    q = world.d_offline
    q_pairs = tabular.pair_occupancy(world.mdp, q)
    expert = (1 - mix) * world.d_expert + mix * q_pairs
    states = expert.sum(1, keepdims=True)

    def expectation(d, p, q):
        ratio = np.where(q > 0, np.log(np.where(q > 0, q, 1) / np.where(q > 0, p, 1)), 0)
        return cp.sum(cp.multiply(d, ratio))

    def objective(d, pairs):
        regulariser = divergence(d, q)
        if name == "lobsdice":
            return divergence(pairs, expert) + ALPHA * regulariser
        if name == "lobsdice_state":
            return divergence(cp.sum(d, axis=1, keepdims=True), states) + ALPHA * regulariser
        if name == "opolo":
            return expectation(pairs, expert, q_pairs) + (1 + ALPHA) * regulariser
        if name == "smodice":
            of_states = cp.sum(d, axis=1, keepdims=True)
            linear = expectation(of_states, states, q.sum(1, keepdims=True))
            return linear + (1 + ALPHA) * regulariser
        inverse = q[..., None] * world.mdp.transition / np.where(q_pairs > 0, q_pairs, 1)[:, None]
        filled = (inverse * world.d_expert[:, None, :]).sum(2)
        return divergence(d, (1 - mix) * filled + mix * q) + ALPHA * regulariser

    return objective


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("seed", "settings"), [(0, {}), (1, {"mix": MIX})])
def test_every_method_agrees_with_a_conic_solver_and_mixes_nothing_by_default(name, seed, settings):
    world, mix = make_world(seed), settings.get("mix", 0.0)
    solution = METHODS[name](world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, **settings)
    value, d = conic(world, conic_objective(name, world, mix))
    np.testing.assert_allclose(solution.primal, value, atol=1e-11)
    np.testing.assert_allclose(solution.occupancy, d, atol=1e-4)
    assert solution.converged and solution.mix == mix


def test_demodice_agrees_with_a_conic_solver(world):
    d_expert = tabular.occupancy(world.mdp, world.expert)
    solution = tabular.demodice(world.mdp, d_expert, world.d_offline, alpha=ALPHA, mix=MIX)
    blended = (1 - MIX) * d_expert + MIX * world.d_offline

    def objective(d, pairs):
        return divergence(d, blended) + ALPHA * divergence(d, world.d_offline)

    value, _ = conic(world, objective)
    np.testing.assert_allclose(solution.primal, value, atol=2e-7)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([(6, 3), (3, 1), (9, 2)]),
    density=st.floats(0.0, 1.0),
    gamma=st.floats(0.05, 0.999),
    log_alpha=st.floats(-6, 1),
    log_mix=st.floats(-8, -0.1),
)
def test_the_gap_closes_whatever_the_problem(seed, size, density, gamma, log_alpha, log_mix):
    world = make_world(seed, *size, gamma=gamma, density=density)
    solution = tabular.lobsdice(
        world.mdp, world.d_expert, world.d_offline, alpha=10**log_alpha, mix=10**log_mix
    )
    assert solution.converged and abs(solution.gap) < 1e-9 * max(1, abs(solution.primal))
    flow = solution.occupancy.sum(1) - world.mdp.gamma * tabular.pair_occupancy(
        world.mdp, solution.occupancy
    ).sum(0)
    np.testing.assert_allclose(flow, (1 - gamma) * world.mdp.initial, atol=1e-12)
    np.testing.assert_allclose(solution.policy.sum(1), 1, rtol=1e-12)


def counted(seed, trajectories, beta, states=20, actions=4, length=60, gamma=0.95):
    """Counts of a few short episodes of a uniform policy in a random MDP, and expert pairs."""
    rng = np.random.default_rng(seed)
    transition = np.zeros((states, actions, states))
    for row in transition.reshape(-1, states):
        successors = rng.choice(states, 4, replace=False)
        row[successors] = beta * rng.dirichlet(np.ones(4))
        row[successors[0]] += 1 - beta
    expert = rng.dirichlet(0.1 * np.ones(actions), size=states)

    def roll(policy, count):
        found = np.zeros_like(transition)
        s = np.zeros(count, dtype=int)
        for t in range(length):
            a = (rng.random((count, 1)) > policy[s].cumsum(1)[:, :-1]).sum(1)
            s_next = (rng.random((count, 1)) > transition[s, a].cumsum(1)[:, :-1]).sum(1)
            np.add.at(found, (s, a, s_next), gamma**t)
            s = s_next
        return found

    offline = roll(np.full((states, actions), 1 / actions), trajectories)
    pairs = roll(expert, 10).sum(1)
    return offline, pairs / pairs.sum()


@pytest.fixture(scope="module")
def estimates():
    """96 estimated MDPs, each from 1 to 100 short episodes."""
    cells = [(n, beta) for n in (1, 3, 10, 100) for beta in (0.01, 1.0)]
    made = [counted(i, *cells[i % len(cells)]) for i in range(96)]
    counts, d_expert = (np.stack(part) for part in zip(*made, strict=True))
    mdp = tabular.from_counts(counts, np.tile(np.eye(20)[0], (96, 1)), 0.95)
    d_offline = counts.sum(3) / counts.sum((1, 2, 3))[:, None, None]
    return mdp, d_expert, d_offline


@pytest.mark.parametrize("alpha", [0.1, 3e-3, 1e-4, 1e-6])
def test_estimated_mdps_are_solved_at_every_alpha(estimates, alpha):
    solution = tabular.lobsdice(*estimates, alpha=alpha, mix=1e-3)
    assert solution.converged.all()
    assert all(np.isfinite(field).all() for field in solution)
    assert solution.gap.max() < 1e-9 and solution.steps.max() <= 30


@pytest.mark.parametrize("name", [name for name in METHODS if name != "lobsdice"])
def test_every_method_solves_estimated_mdps(estimates, name):
    solution = METHODS[name](*estimates, mix=1e-3)
    assert solution.converged.all()
    assert all(np.isfinite(field).all() for field in solution)


def test_estimated_mdps_are_mixed_only_where_they_must_be(estimates):
    with pytest.warns(DataWarning, match="of 96 problems solved with mix = 0.001"):
        solution = tabular.lobsdice(*estimates, alpha=0.01)
    assert solution.converged.all() and set(solution.mix) == {0.0, 1e-3}
    as_stated = tabular.lobsdice(*estimates, alpha=0.01, mix=0.0)
    np.testing.assert_array_equal(solution.mix == 0, as_stated.fault == 0)
    solved = as_stated.fault == 0
    np.testing.assert_allclose(solution.primal[solved], as_stated.primal[solved], atol=1e-11)
    # Each pair of the solution is one of the expert's.
    pairs = tabular.pair_occupancy(estimates[0], solution.occupancy)
    assert np.all(estimates[1][solved][pairs[solved] > 0] > 0)


def test_a_batch_gives_what_its_parts_give(estimates):
    """The batch is solved in several chunks, three of its problems in a single one."""
    mdp, d_expert, d_offline = estimates
    batch = tabular.lobsdice(*estimates, alpha=0.01, mix=1e-3)
    few = np.array([0, 70, 95])
    part = tabular.lobsdice(
        tabular.MDP(mdp.transition[few], mdp.initial[few], 0.95),
        d_expert[few],
        d_offline[few],
        alpha=0.01,
        mix=1e-3,
    )
    np.testing.assert_allclose(batch.policy[few], part.policy, atol=1e-6)
    np.testing.assert_allclose(batch.primal[few], part.primal, atol=1e-11)


def test_a_batch_is_one_compiled_program_for_every_setting(estimates):
    tabular.lobsdice(*estimates, alpha=0.05, mix=1e-3)
    iterate: Any = solver._iterate
    before = iterate._cache_size()
    tabular.lobsdice(*estimates, alpha=np.geomspace(1e-3, 1, 96), mix=0.1)
    assert iterate._cache_size() == before


def test_inputs_without_a_batch_axis_are_shared_by_the_batch(world):
    alphas = np.array([0.01, 0.1, 1.0])
    batch = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=alphas)
    assert batch.policy.shape == (3, 6, 3)
    for i, alpha in enumerate(alphas):
        alone = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=float(alpha))
        np.testing.assert_allclose(batch.primal[i], alone.primal, atol=1e-12)


def test_precision_is_double_even_where_jax_is_set_to_single(world):
    with jax.enable_x64(False):
        solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=0.05)
        assert jnp.zeros(1).dtype == jnp.float32
    assert solution.policy.dtype == np.float64
    assert solution.gap < 1e-11
