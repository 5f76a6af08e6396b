from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, concatenate, mixture
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import LobsDICEError


def make(lengths=(2, 1, 3), **changes) -> Episodes:
    """Observations that say their episode and step: 100 times the one plus the other."""
    states = np.concatenate([100.0 * i + np.arange(n + 1) for i, n in enumerate(lengths)])
    parts = {
        "observations": np.stack([states, -states], axis=1),
        "lengths": list(lengths),
        "terminated": [i % 2 == 0 for i in range(len(lengths))],
        "actions": np.linspace(-1, 1, sum(lengths))[:, None],
        "rewards": np.arange(sum(lengths)),
    }
    return Episodes.from_arrays(**(parts | changes))


def test_starts_and_ends_are_the_first_and_final_states():
    episodes = make()
    assert episodes.observations[episodes.starts, 0].tolist() == [0, 100, 200]
    assert episodes.observations[episodes.ends, 0].tolist() == [2, 101, 203]
    assert (len(episodes), episodes.steps, episodes.state_size) == (3, 6, 2)


def test_no_step_crosses_the_border_of_an_episode():
    episodes = make()
    x, rows = episodes.observations[:, 0], episodes.step_rows
    np.testing.assert_array_equal(x[rows + 1] - x[rows], np.ones(6))
    np.testing.assert_array_equal(x[rows] // 100, episodes.step_episodes)
    assert episodes.step_starts.tolist() == [0, 2, 3]


def test_returns_are_sums_of_rewards():
    np.testing.assert_array_equal(make().returns(), [0 + 1, 2, 3 + 4 + 5])
    assert make(rewards=None).returns() is None


def test_everything_moves_together_in_a_selection():
    chosen = make().select([2, 0])
    assert chosen.lengths.tolist() == [3, 2]
    assert chosen.observations[:, 0].tolist() == [200, 201, 202, 203, 0, 1, 2]
    np.testing.assert_array_equal(chosen.rewards, [3, 4, 5, 0, 1])
    assert chosen.terminated.tolist() == [True, True]


def test_first_selections_are_disjoint():
    episodes = make()
    assert episodes.first(1).observations[0, 0] == 0
    assert episodes.first(2, skip=1).observations[0, 0] == 100
    with pytest.raises(LobsDICEError, match="asked for 3 episodes after the first 1"):
        episodes.first(3, skip=1)
    with pytest.raises(LobsDICEError, match="cannot take 0 episodes"):
        episodes.first(0)
    with pytest.raises(LobsDICEError, match="the selection has no episodes"):
        episodes.select(slice(5, None))


def test_parts_put_together_are_the_whole():
    episodes = make()
    again = concatenate([episodes.first(1), episodes.first(2, skip=1)])
    for field in ("observations", "lengths", "terminated", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(again, field), getattr(episodes, field))


def test_a_mixture_remembers_its_sources():
    mixed = mixture({"expert": make().first(1), "random": make((1, 1))})
    assert mixed.source_names == ("expert", "random")
    np.testing.assert_array_equal(mixed.source, [0, 1, 1])
    np.testing.assert_array_equal(mixed.select([2]).source, [1])
    both = concatenate([mixed.select([1]), mixed.select([0])])
    np.testing.assert_array_equal(np.array(both.source_names)[both.source], ["random", "expert"])


def test_success_stays_with_its_episode():
    known = make(success=[True, False, True])
    np.testing.assert_array_equal(known.select([1, 0]).success, [0, 1])
    np.testing.assert_array_equal(
        mixture({"known": known, "unknown": make((1, 1))}).success, [1, 0, 1, -1, -1]
    )
    assert concatenate([make(), make()]).success is None
    assert make(success=[-1, -1, -1]).success is None
    with pytest.raises(LobsDICEError, match="success, row 1: 2 is not valid"):
        make(success=[1, 2, 0])
    with pytest.raises(LobsDICEError, match="success has 2 rows"):
        make(success=[1, 0])


def test_parts_that_differ_are_not_put_together():
    with pytest.raises(LobsDICEError, match="part 1 has observations of 1 numbers"):
        concatenate([make(), make(observations=np.zeros((9, 1)))])
    with pytest.raises(LobsDICEError, match="part 1 has no actions, but part 0 has"):
        concatenate([make(), make().without_actions()])
    with pytest.raises(LobsDICEError, match="no episodes to put together"):
        concatenate([])


def test_the_same_features_in_another_order_are_not_put_together():
    level = make(observation_names=["level", "flow"])
    with pytest.raises(LobsDICEError, match=r"random has .* column 0 is 'flow', not 'level'"):
        mixture({"expert": level, "random": make(observation_names=["flow", "level"])})
    with pytest.raises(LobsDICEError, match="column 0 is 'flow', not 'level'"):
        concatenate([level, make(observation_names=["flow", "h"])])
    for names in (["h", "q"], ["level", "q"], ["level*0.1", "flow"]):
        both = concatenate([level, make(observation_names=names)])
        assert both.observation_names == ("level", "flow")


def test_columns_that_are_called_by_their_places_or_alike_have_no_order():
    for names, others in ((["2", "3"], ["3", "4"]), (["x", "x"], ["x", "x"])):
        parts = [make(observation_names=which) for which in (names, others)]
        assert concatenate(parts).observation_names == tuple(names)


def test_columns_that_only_one_of_two_files_has_are_named():
    level = make(observation_names=["level", "flow"])
    wide = make(observations=np.zeros((9, 3)), observation_names=["level", "flow", "heat"])
    with pytest.raises(LobsDICEError, match=r"observations of 3; tank lacks heat$"):
        mixture({"old": wide, "tank": level})
    with pytest.raises(LobsDICEError, match=r"of 2; old lacks flow; tank lacks h, q$"):
        odd = replace(wide, observation_names=("level", "h", "q"))
        mixture({"tank": level, "old": odd})


def test_an_observer_sees_no_actions():
    seen = make().without_actions()
    assert seen.actions is None and seen.action_space is None


def test_ragged_observations_are_refused():
    with pytest.raises(LobsDICEError, match="observations is ragged"):
        make(observations=[[1.0], [1.0, 2.0]])


def test_integer_actions_take_a_box_where_one_is_given():
    episodes = make(actions=[0, 1, 2, 0, 1, 2], action_space=Box.of([0], [2]))
    np.testing.assert_array_equal(episodes.actions, np.array([[0, 1, 2, 0, 1, 2]]).T)
    assert episodes.action_space == Box.of([0], [2])


def test_the_source_of_an_episode_has_a_name():
    with pytest.raises(
        LobsDICEError, match="source, row 1: there is no source 2, because source_names has 2"
    ):
        make(source=[0, 2, 1], source_names=("a", "b"))


def test_actions_and_their_space_come_together():
    with pytest.raises(LobsDICEError, match="must be given together or not at all"):
        make(actions=None, action_space=Discrete(2))
