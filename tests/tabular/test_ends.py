"""Worlds with goals and pits, solved exactly for every reading of an end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from tabular.mdps import conic, divergence, goal_and_pits, sparse

from lobsdice import tabular
from lobsdice.equations import duals
from lobsdice.errors import LobsDICEError

ALPHA, MIX = 0.1, 1e-3
READINGS = ("restart", "stay")


def corridor(gamma):
    """0 leads to 1, and 1 to 2, where the episode ends."""
    return tabular.MDP(np.eye(3)[[[1], [2], [0]]], np.eye(3)[0], gamma)


@pytest.mark.parametrize(
    ("terminal", "gamma", "masses"),
    [
        ("stay", 0.9, [0.1, 0.09, 0.81]),
        ("restart", 0.9, np.array([1, 0.9, 0.81]) / 2.71),
        ("restart", 1.0, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_the_occupancy_of_a_corridor_with_an_end(terminal, gamma, masses):
    mdp = tabular.with_ends(corridor(gamma), [2], terminal)
    np.testing.assert_allclose(tabular.occupancy(mdp, np.ones((3, 1))).sum(1), masses, rtol=1e-12)
    np.testing.assert_array_equal(mdp.transition[2, 0], np.eye(3)[2 if terminal == "stay" else 0])


def test_keep_says_nothing():
    mdp = corridor(0.9)
    assert tabular.with_ends(mdp, [2], "keep") is mdp


@pytest.mark.parametrize("terminal", READINGS)
def test_sparse_mdps_and_batches_end_in_the_same_way(terminal):
    task = goal_and_pits(slip=0.2)
    mdp, expected = task.mdp, tabular.with_ends(task.mdp, task.final, terminal).transition
    scattered = tabular.with_ends(sparse(mdp), task.final, terminal).transition
    np.testing.assert_array_equal(scattered.toarray(), expected.reshape(-1, mdp.states))
    batch = tabular.MDP(np.stack([mdp.transition] * 2), np.stack([mdp.initial] * 2), mdp.gamma)
    both = tabular.with_ends(batch, task.final, terminal).transition
    np.testing.assert_array_equal(both, [expected] * 2)


def blended(world):
    """The expert's pairs with a share MIX of the logs'."""
    q = tabular.pair_occupancy(world.mdp, world.d_offline)
    return (1 - MIX) * world.d_expert + MIX * q


def objective(world):
    expert = blended(world)
    return lambda d, pairs: divergence(pairs, expert) + ALPHA * divergence(d, world.d_offline)


def log_ratio(world):
    """r(s,s'), and zero where there is no data."""
    q = tabular.pair_occupancy(world.mdp, world.d_offline)
    return np.log(np.where(q > 0, blended(world), 1) / np.where(q > 0, q, 1))


@pytest.mark.parametrize("terminal", READINGS)
@pytest.mark.parametrize(("slip", "share"), [(0.0, 0.99), (0.2, 0.95)])
def test_lobsdice_reaches_the_goal_and_agrees_with_a_conic_solver(terminal, slip, share):
    task = goal_and_pits(slip)
    world = task.world(terminal)
    solution = tabular.lobsdice(*world[:3], alpha=ALPHA, mix=MIX)
    value, d = conic(world, objective(world))
    np.testing.assert_allclose(solution.primal, value, atol=1e-6)
    np.testing.assert_allclose(solution.occupancy, d, atol=1e-4)
    assert solution.converged
    assert task.success(task.behaviour) < 0.3 < share * task.success(task.expert)
    assert task.success(solution.policy) > share * task.success(task.expert)


METHODS = (
    tabular.lobsdice_state,
    tabular.single_sample,
    tabular.opolo,
    tabular.smodice,
    tabular.demodice_from_observation,
)


@pytest.mark.parametrize("terminal", READINGS)
def test_every_method_reaches_the_goal_where_moves_are_sure(terminal):
    task = goal_and_pits()
    mdp, d_expert, d_offline, expert, _ = task.world(terminal)
    solutions = [method(mdp, d_expert, d_offline) for method in METHODS]
    solutions.append(tabular.demodice(mdp, tabular.occupancy(mdp, expert), d_offline))
    for solution in solutions:
        assert solution.converged and task.success(solution.policy) > 0.95


@pytest.mark.parametrize("terminal", READINGS)
def test_where_moves_slip_the_single_sample_dual_reaches_the_goal_less_often(terminal):
    task = goal_and_pits(slip=0.2)
    sampled = tabular.single_sample(*task.world(terminal)[:3], alpha=ALPHA, mix=MIX)
    assert task.success(sampled.policy) == pytest.approx(0.74, abs=0.005)
    exact = tabular.lobsdice(*task.world(terminal)[:3], alpha=ALPHA, mix=MIX)
    assert task.success(exact.policy) == pytest.approx(0.89, abs=0.01)


def test_without_discount_restart_is_solved():
    task = goal_and_pits(slip=0.2, gamma=1.0)
    world = task.world("restart")
    solution = tabular.lobsdice(*world[:3], alpha=ALPHA, mix=MIX)
    np.testing.assert_allclose(solution.primal, conic(world, objective(world))[0], atol=1e-6)
    discounted = goal_and_pits(slip=0.2)  # whose γ is that of `success`
    assert discounted.success(solution.policy) > 0.95 * discounted.success(task.expert)


def test_without_discount_stay_is_refused():
    with pytest.raises(LobsDICEError, match="have all their mass there"):
        tabular.with_ends(corridor(1.0), [2], "stay")


@pytest.mark.parametrize("terminal", READINGS)
def test_the_actions_of_a_final_state_do_not_matter(terminal):
    task = goal_and_pits(slip=0.2)
    mdp, d_expert, d_offline, *_ = task.world(terminal)
    first = d_offline.copy()
    first[task.final] = first[task.final].sum(1, keepdims=True) * np.eye(4)[0]
    one, other = (tabular.lobsdice(mdp, d_expert, d) for d in (d_offline, first))
    np.testing.assert_allclose(one.primal, other.primal, rtol=1e-9)
    before = np.setdiff1d(np.arange(mdp.states), task.final)
    np.testing.assert_allclose(one.policy[before], other.policy[before], atol=1e-6)


# ---- keep: nothing follows the end ----


def kept(task):
    """The world of `stay` without the rows that leave final states."""
    world = task.world("stay")
    tables = [d.copy() for d in (world.d_expert, world.d_offline)]
    for d in tables:
        d[task.final] = 0
    d_expert, d_offline = (d / d.sum() for d in tables)
    return world._replace(d_expert=d_expert, d_offline=d_offline)


@pytest.mark.parametrize(
    ("slip", "of_logs", "of_keep", "of_stay"),
    [(0.0, 0.085, 0.013, 0.734), (0.2, 0.097, 0.024, 0.602)],
)
def test_where_nothing_follows_an_end_the_goal_is_avoided(slip, of_logs, of_keep, of_stay):
    """Ends are absorbing in the solver, but no expert is seen there: the less `mix`, the less."""
    task = goal_and_pits(slip)

    def at_goal(world, mix):
        return tabular.lobsdice(*world[:3], alpha=ALPHA, mix=mix).occupancy[task.goal].sum()

    logs = task.world("stay").d_offline[task.goal].sum()
    more, usual, less = (at_goal(kept(task), mix) for mix in (1e-1, MIX, 1e-6))
    assert logs > more > usual > less
    found = [logs, usual, at_goal(task.world("stay"), MIX)]
    np.testing.assert_allclose(found, [of_logs, of_keep, of_stay], atol=6e-4)


def single_sample_dual(world):
    """J of eq. (23) as a function of a table of ν, with its rows, weights and probabilities."""
    p = world.d_offline[..., None] * world.mdp.transition
    s, _, s_next = np.nonzero(p)
    r, probabilities = jnp.asarray(log_ratio(world)[s, s_next]), jnp.asarray(p[p > 0])

    def residual(nu):
        return duals.residual(r, nu[s], nu[s_next], world.mdp.gamma)

    def value(nu):
        settings = {"gamma": world.mdp.gamma, "p_init": jnp.asarray(world.mdp.initial)}
        return duals.dual(nu, residual(nu), alpha=ALPHA, p=probabilities, **settings)

    def weights(nu):
        return duals.weights(residual(nu), alpha=ALPHA, p=probabilities) * probabilities

    return value, weights, s, s_next


def test_where_nothing_follows_an_end_the_dual_falls_for_ever_with_nu_there():
    """Its slope in ν(f) is γ times the weighted share of the steps into f, whatever ν is."""
    task = goal_and_pits()
    world = kept(task)
    value, weights, _, s_next = single_sample_dual(world)
    nu = jnp.asarray(np.random.default_rng(0).normal(size=world.mdp.states))
    entering = [float(weights(nu)[s_next == f].sum()) for f in task.final]
    slope = np.asarray(jax.grad(value)(nu))[task.final]
    np.testing.assert_allclose(slope, world.mdp.gamma * np.array(entering), rtol=1e-12)
    assert min(entering) > 0


def test_where_nothing_follows_an_end_the_best_weights_leave_out_all_steps_into_it():
    """The minimum is that of the same data without these steps."""
    task = goal_and_pits()
    world = kept(task)
    value, weights, s, s_next = single_sample_dual(world)
    start = np.zeros(world.mdp.states)
    found = minimize(jax.jit(jax.value_and_grad(value)), start, jac=True, method="BFGS")
    own = np.zeros_like(world.d_expert)
    np.add.at(own, (s, s_next), np.asarray(weights(jnp.asarray(found.x))))
    assert own[:, task.final].sum() < 1e-6

    enters = world.mdp.transition[:, :, task.final].any(2)
    d_offline = np.where(enters, 0, world.d_offline)
    d_expert = blended(world)
    d_expert[:, task.final] = 0
    rest = (d_expert / d_expert.sum(), d_offline / d_offline.sum())
    without = tabular.single_sample(world.mdp, *rest, alpha=ALPHA, mix=0.0)
    pairs = tabular.pair_occupancy(world.mdp, without.occupancy)
    np.testing.assert_allclose(own, pairs, atol=1e-4)


# ---- stay: ν of a final state has a closed form ----


def test_where_ends_stay_nu_of_a_final_state_follows_from_the_states_before_it():
    """ν(f) = r(f,f) - (1+α) log E[exp((r(s,f) - ν(s)) / (1+α))] over the logs' steps into f."""
    task = goal_and_pits(slip=0.2)
    world = task.world("stay")
    solution = tabular.single_sample(*world[:3], alpha=ALPHA, mix=MIX)
    q, r = tabular.pair_occupancy(world.mdp, world.d_offline), log_ratio(world)
    for f in task.final:
        before = np.flatnonzero((q[:, f] > 0) & (np.arange(16) != f))
        share = q[before, f] / q[before, f].sum()
        into = np.exp((r[before, f] - solution.nu[before]) / (1 + ALPHA))
        expected = r[f, f] - (1 + ALPHA) * np.log(share @ into)
        np.testing.assert_allclose(solution.nu[f], expected, rtol=1e-5)


def test_where_ends_stay_the_loop_is_weighed_as_the_steps_into_it():
    task = goal_and_pits(slip=0.2)
    world = task.world("stay")
    solution = tabular.lobsdice(*world[:3], alpha=ALPHA)
    own, q = (tabular.pair_occupancy(world.mdp, d) for d in (solution.occupancy, world.d_offline))
    for f in task.final:
        others = np.arange(16) != f
        np.testing.assert_allclose(own[f, f] / q[f, f], own[others, f].sum() / q[others, f].sum())


@pytest.mark.parametrize(
    ("final", "terminal", "sentence"),
    [
        ([2], "absorbing", "terminal must be keep, restart, stay, but is 'absorbing'"),
        ([1, 3], "stay", "final state 3 is not among the states 0 to 2"),
    ],
)
def test_bad_ends_are_told_in_a_sentence(final, terminal, sentence):
    with pytest.raises(LobsDICEError, match=sentence):
        tabular.with_ends(corridor(0.9), final, terminal)
