"""Actions and expert pairs that are not in the data, dead ends, and bad input."""

import numpy as np
import pytest
from tabular.mdps import make_world

from lobsdice import tabular
from lobsdice.errors import DataWarning, LobsDICEError
from lobsdice.tabular.support import Fault


def corridor(gamma=0.9):
    """Six states in a row; action 0 stays, 1 goes right, 2 goes left; walls at both ends."""
    here = np.arange(6)
    to = np.stack([here, np.minimum(here + 1, 5), np.maximum(here - 1, 0)], axis=1)
    return tabular.MDP(np.eye(6)[to], np.eye(6)[0], gamma)


def from_walk(states, actions, gamma=0.9):
    """The estimated MDP and d^I of one trajectory."""
    counts = np.zeros((6, 3, 6))
    for t, (s, a, s_next) in enumerate(zip(states, actions, states[1:], strict=False)):
        counts[s, a, s_next] += gamma**t
    d_offline = counts.sum(2) / counts.sum()
    return tabular.from_counts(counts, np.eye(6)[0], gamma), d_offline


def pairs_of(*pairs):
    d = np.zeros((6, 6))
    for s, s_next in pairs:
        d[s, s_next] += 1 / len(pairs)
    return d


def test_actions_never_seen_have_no_occupancy(world):
    d_offline = world.d_offline.copy()
    d_offline[2, 1] = d_offline[4, 0] = 0
    d_offline /= d_offline.sum()
    solution = tabular.lobsdice(world.mdp, world.d_expert, d_offline, alpha=1e-3)
    assert solution.occupancy[2, 1] == solution.policy[2, 1] == 0
    assert solution.occupancy[4, 0] == 0 < solution.occupancy[4, 1:].max()
    assert solution.converged


def test_a_state_that_the_data_never_leaves_is_absorbing():
    mdp, d_offline = from_walk([0, 1, 2, 3], [1, 1, 1])
    solution = tabular.lobsdice(mdp, pairs_of((0, 1), (1, 2), (2, 3)), d_offline, mix=1e-3)
    # The only path visits 0, 1 and 2 once each, then stays in 3 for ever.
    expected = [0.1, 0.09, 0.081, 0.729, 0, 0]
    np.testing.assert_allclose(solution.occupancy.sum(1), expected, atol=1e-12)
    assert solution.converged
    np.testing.assert_array_equal(mdp.transition[3], np.tile(np.eye(6)[3], (3, 1)))


def test_where_nothing_is_known_the_policy_is_uniform():
    mdp, d_offline = from_walk([0, 1, 0, 1, 0], [1, 2, 1, 2])
    solution = tabular.lobsdice(mdp, pairs_of((0, 1), (1, 0)), d_offline)
    np.testing.assert_array_equal(solution.policy[2:], 1 / 3)
    np.testing.assert_array_equal(solution.occupancy[2:], 0)
    np.testing.assert_array_equal(solution.nu[2:], 0)


def test_where_the_flow_cannot_go_the_policy_is_the_behaviour():
    """States 4 and 5 are in the data, but cannot be reached from the initial state."""
    counts = np.zeros((6, 3, 6))
    counts[0, 1, 1] = counts[1, 2, 0] = counts[4, 1, 5] = 1
    counts[5, 2, 4], counts[5, 1, 5] = 1, 3
    mdp = tabular.from_counts(counts, np.eye(6)[0], 0.9)
    d_offline = counts.sum(2) / counts.sum()
    solution = tabular.lobsdice(mdp, pairs_of((0, 1), (1, 0)), d_offline)
    np.testing.assert_allclose(solution.policy[5], [0, 0.75, 0.25])
    assert solution.occupancy[4:].sum() == 0 and solution.converged


def test_expert_pairs_outside_the_data_are_reported():
    mdp, d_offline = from_walk([0, 1, 0, 1, 0], [1, 2, 1, 2])
    d_expert = pairs_of((0, 1), (1, 0), (1, 2), (2, 3))
    methods = (
        tabular.lobsdice,
        tabular.opolo,
        tabular.bco,
        tabular.demodice_from_observation,
        tabular.single_sample,
    )
    for method in methods:
        assert method(mdp, d_expert, d_offline).unsupported_expert_mass == pytest.approx(0.5)
    assert tabular.smodice(mdp, d_expert, d_offline).unsupported_expert_mass == pytest.approx(0.25)


def test_an_unavoidable_pair_without_expert_mass_is_an_error_or_mixed_with_a_warning():
    mdp = corridor()
    d_offline = tabular.occupancy(mdp, np.full((6, 3), 1 / 3))
    d_expert = pairs_of((1, 2), (2, 1))
    with pytest.raises(LobsDICEError, match="divergence is infinite"):
        tabular.lobsdice(mdp, d_expert, d_offline, mix=0.0)
    with pytest.warns(DataWarning, match="^solved with mix = 0.001"):
        solution = tabular.lobsdice(mdp, d_expert, d_offline)
    assert solution.converged and solution.mix == 1e-3 and "mix=" in repr(solution)
    asked = tabular.lobsdice(mdp, d_expert, d_offline, mix=1e-3)
    np.testing.assert_array_equal(solution.policy, asked.policy)


def test_without_mixing_pairs_that_can_be_avoided_are_avoided():
    mdp = corridor()
    d_offline = tabular.occupancy(mdp, np.full((6, 3), 1 / 3))
    for method in (tabular.lobsdice, tabular.opolo):
        solution = method(mdp, pairs_of((0, 1), (1, 2), (2, 1)), d_offline, mix=0.0)
        assert solution.converged
        seen = tabular.pair_occupancy(mdp, solution.occupancy) > 0
        assert np.argwhere(seen).tolist() == [[0, 1], [1, 2], [2, 1]]


def test_without_discount_transient_states_have_no_occupancy():
    counts = np.zeros((6, 3, 6))
    counts[0, 1, 1] = counts[1, 1, 2] = counts[2, 2, 1] = counts[2, 0, 2] = 1
    mdp = tabular.from_counts(counts, np.eye(6)[0], 1.0)
    solution = tabular.lobsdice(mdp, pairs_of((1, 2), (2, 1)), counts.sum(2) / counts.sum())
    assert solution.occupancy[0].sum() == 0 and solution.converged
    assert solution.occupancy.sum() == pytest.approx(1)


def test_without_discount_several_recurrent_classes_are_an_error():
    counts = np.zeros((6, 3, 6))
    counts[0, 0, 0] = counts[1, 0, 1] = 1
    mdp = tabular.from_counts(counts, np.eye(6)[0], 1.0)
    with pytest.raises(LobsDICEError, match="one recurrent class"):
        tabular.lobsdice(mdp, pairs_of((0, 0), (1, 1)), counts.sum(2) / counts.sum())


def test_a_faulty_problem_of_a_batch_is_flagged_and_spoils_no_other(world):
    mdp, d_expert, d_offline, *_ = world
    transition = np.stack([mdp.transition] * 5)
    initial = np.stack([mdp.initial] * 5)
    experts, offlines = np.stack([d_expert] * 5), np.stack([d_offline] * 5)
    transition[0, 0, 0, 0] = np.nan
    initial[1] *= 2
    offlines[2, 0, 0] = -1
    experts[3, 0, 0] = np.inf
    batch = tabular.lobsdice(tabular.MDP(transition, initial, mdp.gamma), experts, offlines)
    assert batch.converged.tolist() == [False] * 4 + [True]
    faults = [Fault.TRANSITION, Fault.INITIAL, Fault.OFFLINE, Fault.EXPERT, Fault.NONE]
    assert batch.fault.tolist() == faults
    assert not any(np.isnan(field).any() for field in batch)
    np.testing.assert_allclose(batch.policy.sum(2), 1)
    alone = tabular.lobsdice(mdp, d_expert, d_offline)
    np.testing.assert_allclose(batch.policy[4], alone.policy, atol=1e-9)


def test_an_infeasible_problem_of_a_batch_is_flagged():
    mdp = corridor()
    d_offline = tabular.occupancy(mdp, np.full((6, 3), 1 / 3))
    experts = np.stack([pairs_of((1, 2), (2, 1)), pairs_of((0, 1), (1, 0))])
    batch = tabular.lobsdice(mdp, experts, d_offline, mix=0.0)
    assert batch.fault.tolist() == [Fault.INFEASIBLE, Fault.NONE]
    assert batch.converged.tolist() == [False, True]
    with pytest.warns(DataWarning, match="^1 of 2 problems solved with mix"):
        batch = tabular.lobsdice(mdp, experts, d_offline)
    assert batch.mix.tolist() == [1e-3, 0.0] and batch.converged.all()


def test_without_discount_an_expert_in_two_classes_is_mixed_with_a_warning():
    mdp = corridor(gamma=1.0)
    d_offline = np.full((6, 3), 1 / 18)
    with pytest.warns(DataWarning, match="solved with mix"):
        solution = tabular.lobsdice(mdp, pairs_of((0, 0), (5, 5)), d_offline)
    assert solution.converged and solution.mix == 1e-3


def change(world, **changes):
    arguments = {
        "mdp": world.mdp,
        "d_expert": world.d_expert,
        "d_offline": world.d_offline,
        "alpha": 0.1,
        "mix": 1e-3,
    }
    arguments.update(changes)
    mdp, d_expert, d_offline = (arguments.pop(name) for name in ("mdp", "d_expert", "d_offline"))
    return tabular.lobsdice(mdp, d_expert, d_offline, **arguments)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"alpha": -1.0}, "alpha must be a positive number, but is -1"),
        ({"alpha": np.inf}, "alpha must be a positive number, but is inf"),
        ({"alpha": float("nan")}, "alpha must be a positive number"),
        ({"mix": 1.5}, "mix must be at least 0 and below 1"),
        ({"d_offline": np.ones((6, 3))}, "d_offline must sum to one, but sums to 18"),
        ({"d_offline": np.full((6, 3), np.nan)}, "d_offline must not have negative or missing"),
        ({"d_expert": -np.ones((6, 6))}, "d_expert must not have negative or missing"),
        ({"d_expert": np.zeros((6, 6))}, "d_expert must sum to one, but sums to 0"),
        ({"d_offline": np.ones((3, 6)) / 18}, r"d_offline must have the shape \(6, 3\)"),
        ({"d_expert": np.ones((6, 3)) / 18}, r"d_expert must have the shape \(6, 6\)"),
        ({"d_expert": np.ones((2, 6, 6)), "alpha": np.ones(3)}, "batch sizes differ"),
    ],
)
def test_bad_settings_and_distributions_are_told_in_a_sentence(world, changes, sentence):
    with pytest.raises(LobsDICEError, match=sentence):
        change(world, **changes)


def broken(transition, value):
    transition = transition.copy()
    transition[1, 2, 0] += value
    return transition


@pytest.mark.parametrize(
    ("transition", "initial", "gamma", "sentence"),
    [
        (lambda t: broken(t, 0.5), np.ones(6) / 6, 0.9, "those of state 1 and action 2 sum to 1.5"),
        (lambda t: broken(t, np.nan), np.ones(6) / 6, 0.9, "must sum to one"),
        (lambda t: 2 * t - t[:, :, ::-1], np.ones(6) / 6, 0.9, "must not be negative"),
        (lambda t: t, np.ones(6), 0.9, "initial must sum to one, but sums to 6"),
        (lambda t: t, np.ones(5) / 5, 0.9, r"initial must have the shape \(6,\)"),
        (lambda t: t[:, :, :4], np.ones(6) / 6, 0.9, r"must have the shape \(S, A, S\)"),
        (lambda t: t, np.ones(6) / 6, 0.0, "gamma must be above 0 and at most 1"),
        (lambda t: t, np.ones(6) / 6, 1.01, "gamma must be above 0 and at most 1"),
    ],
)
def test_bad_mdps_are_told_in_a_sentence(transition, initial, gamma, sentence):
    table = make_world().mdp.transition
    with pytest.raises(LobsDICEError, match=sentence):
        tabular.MDP(transition(table), initial, gamma)
