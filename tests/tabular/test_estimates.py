"""Occupancies counted from recorded episodes, against exact ones.

Where every possible episode is recorded as often as it is probable, the counts have no noise.
"""

import numpy as np
import pytest
from tabular.mdps import Task, goal_and_pits

from lobsdice import tabular
from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import Discrete
from lobsdice.errors import LobsDICEError

ROWS = ("discounted", "uniform")


def record(walks, actions=2) -> Episodes:
    """Episodes of (states, actions, terminated)."""
    states, taken, terminated = zip(*walks, strict=True)
    return Episodes.from_arrays(
        np.concatenate(states)[:, None],
        lengths=[len(walk) for walk in taken],
        actions=np.concatenate(taken),
        action_space=Discrete(actions),
        terminated=np.array(terminated),
    )


def every_episode(task: Task, policy, limit: int) -> Episodes:
    """All episodes of at most `limit` steps, as often as they are probable."""
    found = []

    def extend(probability, states, actions):
        ended = states[-1] in task.final
        if ended or len(actions) == limit:
            found.append((probability, (states, actions, ended)))
            return
        joint = policy[states[-1]][:, None] * task.mdp.transition[states[-1]]
        for a, s_next in np.argwhere(joint > 0):
            extend(probability * joint[a, s_next], [*states, s_next], [*actions, a])

    for s in np.flatnonzero(task.mdp.initial):
        extend(task.mdp.initial[s], [s], [])
    rarest = min(probability for probability, _ in found)
    return record([walk for p, walk in found for _ in range(round(p / rarest))])


def downhill(gamma) -> Task:
    """States 0 to 6, of which 5 and 6 are final; every step goes one or two states down."""
    transition = np.zeros((7, 2, 7))
    for s in range(5):
        transition[s, 0, s + 1] = 1
        transition[s, 1, [s + 1, s + 2]] = 0.5
    transition[5:, :, 0] = 1  # which no episode shows
    policy = np.full((7, 2), 0.5)
    mdp = tabular.MDP(transition, np.array([0.5, 0.5, 0, 0, 0, 0, 0]), gamma)
    return Task(mdp, [5, 6], 5, policy, policy)


def back_and_forth(gamma) -> Task:
    """States 0, 1 and 2: each step goes to the next with probability 1/2, or back to 0; 2 ends."""
    transition = np.zeros((3, 1, 3))
    transition[:, 0, 0] = 0.5
    transition[[0, 1], 0, [1, 2]] = 0.5
    transition[2, 0, 2] = 0.5
    policy = np.ones((3, 1))
    return Task(tabular.MDP(transition, np.eye(3)[0], gamma), [2], 2, policy, policy)


@pytest.mark.parametrize(("terminal", "gamma"), [("stay", 0.9), ("restart", 0.9), ("restart", 1.0)])
def test_the_discounted_estimate_of_all_episodes_is_the_occupancy(terminal, gamma):
    task = downhill(gamma)
    world = task.world(terminal)
    episodes = every_episode(task, task.behaviour, limit=10)
    found = tabular.estimate(episodes, episodes, states=7, gamma=gamma, terminal=terminal)
    np.testing.assert_allclose(found.mdp.transition, world.mdp.transition, atol=1e-12)
    np.testing.assert_allclose(found.mdp.initial, world.mdp.initial, atol=1e-12)
    np.testing.assert_allclose(found.d_offline, world.d_offline, atol=1e-12)
    assert found.d_labelled is not None
    np.testing.assert_allclose(found.d_labelled, world.d_offline, atol=1e-12)
    np.testing.assert_allclose(found.d_expert, world.d_expert, atol=1e-12)
    assert tabular.truncation_loss(episodes, gamma, terminal) == 0


@pytest.mark.parametrize("terminal", ["stay", "restart"])
def test_truncation_hides_no_more_than_the_loss_says(terminal):
    task = back_and_forth(0.8)
    world = task.world(terminal)
    losses = []
    for limit in (2, 4, 8):
        episodes = every_episode(task, task.behaviour, limit)
        found = tabular.estimate(episodes, episodes, states=3, gamma=0.8, terminal=terminal)
        losses.append(tabular.truncation_loss(episodes, 0.8, terminal))
        # What was seen is a part of the occupancy, of at least this size.
        assert np.all((1 - losses[-1]) * found.d_expert <= world.d_expert + 1e-12)
        assert 1e-3 < tabular.total_variation(found.d_expert, world.d_expert) <= losses[-1]
    assert losses[0] > 2 * losses[1] > 4 * losses[2]


def test_the_loss_is_the_discounted_mass_after_the_truncation():
    walks = [([0, 1, 2], [0, 0], True), ([0, 1, 0, 1], [0, 0, 0], False)]
    episodes = record(walks, actions=1)
    assert tabular.truncation_loss(episodes, 0.9, "stay") == pytest.approx(0.9**3 / 2)
    seen = 1 + 0.9 + 0.9**2
    hidden = 0.9**3 / 0.1
    loss = tabular.truncation_loss(episodes, 0.9, "restart")
    assert loss == pytest.approx(hidden / (2 * seen + hidden))
    assert tabular.truncation_loss(episodes, 1.0, "restart") == 1


def test_the_rows_of_two_episodes_by_hand():
    """One episode ends in 2; the other is truncated in 1. Half of p0 is in 0, half in 1."""
    logs = record([([0, 1, 2], [1, 0], True), ([1, 0, 1], [1, 1], False)])
    g = 0.9

    def mass(terminal, rows):
        found = tabular.estimate(logs, logs, states=3, gamma=g, terminal=terminal, rows=rows)
        np.testing.assert_allclose([found.d_expert.sum(), found.d_offline.sum()], 1)
        np.testing.assert_allclose(found.d_expert.sum(1), found.d_offline.sum(1))
        return found.d_expert / found.d_expert[1, 2]

    steps = np.array([[0, 1 + g, 0], [1, 0, g], [0, 0, 0]])
    plain = np.array([[0, 2, 0], [1, 0, 1], [0, 0, 0]])
    again, loop = np.array([[0], [0], [1]]) * [0.5, 0.5, 0], np.diag([0, 0, 1])
    np.testing.assert_allclose(mass("keep", "discounted"), steps / g)
    np.testing.assert_allclose(mass("restart", "discounted"), (steps + g**2 * again) / g)
    np.testing.assert_allclose(mass("stay", "discounted"), (steps + g**2 / (1 - g) * loop) / g)
    np.testing.assert_allclose(mass("keep", "uniform"), plain)
    np.testing.assert_allclose(mass("restart", "uniform"), plain + again)
    np.testing.assert_allclose(mass("stay", "uniform"), plain + g / (1 - g) * loop)


def test_a_final_state_has_no_action_of_its_own():
    logs = record([([0, 1, 2], [1, 0], True)])
    found = tabular.estimate(logs, logs, states=3, gamma=0.9)
    np.testing.assert_allclose(found.d_offline[2], found.d_offline[2, 0])
    blind = tabular.estimate(logs.without_actions(), logs, states=3, gamma=0.9)
    assert blind.d_labelled is None


def stationary(task: Task, policy, terminal: str):
    """What uniform rows of infinitely many episodes are, in the MDP of a reading."""
    endless = tabular.MDP(task.mdp.transition, task.mdp.initial, 1.0)
    d = tabular.occupancy(tabular.with_ends(endless, task.final, "restart"), policy)
    if terminal == "stay":
        d[task.final] *= task.mdp.gamma / (1 - task.mdp.gamma)
    return d / d.sum()


@pytest.mark.parametrize("terminal", ["stay", "restart"])
def test_uniform_rows_are_the_stationary_process_up_to_the_loop(terminal):
    task = downhill(0.9)
    episodes = every_episode(task, task.behaviour, limit=10)
    settings = {"states": 7, "gamma": 0.9, "terminal": terminal}
    found = tabular.estimate(episodes, episodes, rows="uniform", **settings)
    d = stationary(task, task.behaviour, terminal)
    np.testing.assert_allclose(found.d_offline, d, atol=1e-12)
    pairs = tabular.pair_occupancy(found.mdp, d)
    np.testing.assert_allclose(found.d_expert, pairs, atol=1e-12)


def test_uniform_loops_obey_the_flow_constraint_at_their_final_state():
    task = downhill(0.9)
    episodes = every_episode(task, task.behaviour, limit=10)
    settings = {"states": 7, "gamma": 0.9, "terminal": "stay", "rows": "uniform"}
    d = tabular.estimate(episodes, episodes, **settings).d_expert
    np.testing.assert_allclose(d.sum(1)[task.final], 0.9 * d.sum(0)[task.final], rtol=1e-12)


# ---- What uniform rows cost; the numbers are those of docs/mathematics/ends.md ----


def fork(way: int):
    """Two episodes from state 0: one step to state 1 by action 0, or `way` steps by action 1."""
    there = [0, *range(2, way + 2)]
    return record([([0, 1], [0], True), (there, [1] * way, True)])


@pytest.mark.parametrize(
    ("terminal", "gamma", "way", "share"),
    [
        ("restart", 0.95, 10, 0.551),
        ("restart", 0.95, 30, 0.632),
        ("restart", 0.99, 10, 0.511),
        ("restart", 0.99, 30, 0.534),
        ("stay", 0.95, 10, 0.589),
        ("stay", 0.95, 30, 0.680),
        ("stay", 0.99, 10, 0.521),
        ("stay", 0.99, 30, 0.563),
    ],
)
def test_uniform_rows_prefer_the_longer_way_and_discounted_ones_do_not(terminal, gamma, way, share):
    demos = fork(way)
    settings = {"states": way + 2, "gamma": gamma, "terminal": terminal}
    right, biased = (
        tabular.lobsdice(*tabular.estimate(demos, demos, rows=rows, **settings)[:3], mix=0.0)
        for rows in ROWS
    )
    assert right.policy[0, 1] == pytest.approx(0.5, abs=1e-6)
    assert biased.policy[0, 1] == pytest.approx(share, abs=6e-4)


@pytest.mark.parametrize(
    ("noise", "terminal", "distances", "successes"),
    [
        (0.0, "restart", (0.052, 0.001, 0.006), (0.926, 0.926)),
        (0.0, "stay", (0.041, 0.001, 0.000), (0.926, 0.926)),
        (0.3, "restart", (0.066, 0.000, 0.033), (0.752, 0.784)),
        (0.3, "stay", (0.065, 0.001, 0.045), (0.752, 0.790)),
    ],
)
def test_what_uniform_rows_cost_on_a_slippery_grid(noise, terminal, distances, successes):
    """Distances to the expert's pairs: of uniform rows, of the solutions with either rows."""
    task = goal_and_pits(slip=0.2, noise=noise)
    mdp, truth, d_offline, *_ = task.world(terminal)
    uniform = [stationary(task, policy, terminal) for policy in (task.expert, task.behaviour)]
    target = tabular.pair_occupancy(mdp, uniform[0])
    settings = {"alpha": 1e-3, "mix": 1e-6}
    right = tabular.lobsdice(mdp, truth, d_offline, **settings)
    biased = tabular.lobsdice(mdp, target, uniform[1], **settings)
    own = (tabular.pair_occupancy(mdp, solution.occupancy) for solution in (right, biased))
    found = [float(tabular.total_variation(pairs, truth)) for pairs in (target, *own)]
    np.testing.assert_allclose(found, distances, atol=6e-4)
    found = [task.success(solution.policy) for solution in (right, biased)]
    np.testing.assert_allclose(found, successes, atol=6e-4)


# ---- From recorded episodes to a policy ----


def rollouts(task: Task, policy, count: int, *, limit: int, seed: int) -> Episodes:
    rng = np.random.default_rng(seed)

    def walk():
        states, actions = [int(rng.choice(task.mdp.states, p=task.mdp.initial))], []
        while states[-1] not in task.final and len(actions) < limit:
            actions.append(int(rng.choice(len(policy[0]), p=policy[states[-1]])))
            chances = task.mdp.transition[states[-1], actions[-1]]
            states.append(int(rng.choice(task.mdp.states, p=chances)))
        return states, actions, states[-1] in task.final

    return record([walk() for _ in range(count)], actions=len(policy[0]))


@pytest.mark.parametrize("rows", ROWS)
def test_recorded_episodes_lead_to_the_goal_unless_nothing_follows_their_ends(rows):
    task = goal_and_pits()
    demos = rollouts(task, task.expert, 1, limit=100, seed=0).without_actions()
    logs = rollouts(task, task.behaviour, 200, limit=30, seed=1)

    def success(terminal):
        settings = {"states": 16, "gamma": 0.95, "terminal": terminal, "rows": rows}
        found = tabular.lobsdice(*tabular.estimate(demos, logs, **settings)[:3], mix=1e-3)
        assert found.converged
        return task.success(found.policy)

    assert not logs.terminated.all()
    assert min(success("restart"), success("stay")) > 0.98 > 0.5 > success("keep")


GOOD = record([([0, 1, 2], [0, 0], True)])


@pytest.mark.parametrize(
    ("logs", "settings", "sentence"),
    [
        (GOOD, {"terminal": "drop"}, "terminal must be keep, restart, stay, but is 'drop'"),
        (GOOD, {"terminal": "stay", "gamma": 1.0}, "have all their mass there"),
        (GOOD, {"rows": "even"}, "rows are discounted or uniform, but are 'even'"),
        (GOOD, {"states": 2}, "whole numbers from 0 to 1, but one is 2"),
        (record([([0, 0.5], [0], True)]), {}, "whole numbers from 0 to 2, but one is 0.5"),
        (record([([2, 0], [0], False)]), {}, "state 2 ends an episode, but another step leaves it"),
        (record([([0, 2], [0], True)], actions=1), {}, r"have the actions Discrete\(n=2\), but"),
        (GOOD.without_actions(), {}, "must have discrete actions, but have None"),
        (
            Episodes.from_arrays(np.zeros((2, 3)), lengths=[1], actions=[1]),
            {},
            "one column of state numbers, but have 3",
        ),
    ],
)
def test_bad_episodes_and_settings_are_told_in_a_sentence(logs, settings, sentence):
    with pytest.raises(LobsDICEError, match=sentence):
        tabular.estimate(GOOD, logs, **{"states": 3, "gamma": 0.9, **settings})
