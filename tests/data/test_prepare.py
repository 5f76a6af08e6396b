"""Training data: state pairs and transitions, the options that the paper leaves open, the leak."""

from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.leaks import count_leaked
from lobsdice.data.normaliser import SCALE_OFFSET
from lobsdice.data.prepare import observations, prepare
from lobsdice.data.spaces import Box
from lobsdice.data.steps import Observations, store
from lobsdice.errors import DataWarning, LobsDICEError


def numbered(lengths, terminated, offset=0.0, width=2, low=-1.0, high=1.0):
    """Episodes whose k-th observation row is k + offset throughout, and k-th action k / 1000."""
    lengths = np.asarray(lengths)
    rows = np.arange(lengths.sum() + len(lengths), dtype=np.float32) + offset
    steps = np.arange(lengths.sum(), dtype=np.float32)
    return Episodes.from_arrays(
        np.repeat(rows[:, None], width, axis=1),
        lengths=lengths,
        terminated=terminated,
        actions=steps[:, None] / 1000,
        action_space=Box((low,), (high,)),
    )


@pytest.fixture
def episodes():
    """Rows 0 1 2 | 3 4 | 5 6 7 8; the first and the last episode terminated."""
    return numbered([2, 1, 3], [True, False, True])


def rows(view):
    return [(int(a), int(b)) for a, b in zip(view.s[:, 0], view.s_next[:, 0], strict=True)]


def test_pairs_never_cross_an_episode_boundary_and_keep_the_final_state(episodes):
    assert rows(observations(episodes)) == [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (7, 8)]


def test_ends_are_the_final_states_of_episodes_that_terminated(episodes):
    """Of the demonstrations, of the logs and of the labelled ones: truncated ones have none."""
    expert = numbered([2, 2], [False, True], offset=100.5)
    labelled = numbered([1], [True], offset=200.5)
    data = prepare(expert, episodes, labelled=labelled)
    ends = data.ends
    assert ends is not None and ends.labelled is not None
    expected = ([2, 8], [105.5], [201.5])
    for found, rows in zip((ends.offline, ends.expert, ends.labelled), expected, strict=True):
        states = np.repeat(np.array(rows, np.float32)[:, None], 2, axis=1)
        np.testing.assert_array_equal(found, data.normaliser(states))


@pytest.mark.parametrize("every", [1, 2])
def test_every_end_is_kept_and_the_data_say_how_many_steps_are(every, episodes):
    expert = numbered([2, 3], [True, True], offset=100.5)
    data = prepare(expert, episodes, every=every)
    assert data.ends is not None and data.every == every
    assert (len(data.expert.s), len(data.ends.expert)) == ({1: 5, 2: 3}[every], 2)
    assert (len(data.offline.s), len(data.ends.offline)) == (6, 2)


def test_where_no_episode_terminates_there_are_no_ends():
    data = prepare(numbered([2], [False], offset=100.5), numbered([2, 3], [False, False]))
    assert data.ends is not None
    assert data.ends.expert.shape == data.ends.offline.shape == (0, 2)


def test_every_counts_from_each_episodes_start(episodes):
    assert rows(observations(episodes, every=2)) == [(0, 1), (3, 4), (5, 6), (7, 8)]


def test_fifty_trajectories_at_rate_twenty_give_the_papers_number_of_pairs():
    expert = numbered([1000] * 50, [False] * 50, high=100.0)
    assert len(observations(expert, every=20).s) == 2500


def test_the_state_only_view_has_no_place_for_actions(episodes):
    assert observations(episodes).a is None
    assert episodes.without_actions().actions is None


def test_states_are_normalised_by_the_offline_states_that_are_left(episodes):
    expert = numbered([2], [False], offset=100.5)
    data = prepare(expert, episodes)
    left = np.array([0, 1, 3, 5, 6, 7], np.float64)
    scale = left.std() + SCALE_OFFSET
    np.testing.assert_allclose(data.offline.s[:, 0], (left - left.mean()) / scale, rtol=1e-5)
    np.testing.assert_allclose(data.expert.s[0, 0], (100.5 - left.mean()) / scale, rtol=1e-5)


def test_a_constant_feature_is_scaled_by_the_offset_alone(episodes):
    constant = Episodes.from_arrays(
        np.full((4, 1), 7.0), lengths=[3], actions=np.zeros((3, 1), np.float32)
    )
    expert = Episodes.from_arrays([[0.0], [1.0]], lengths=[1])
    data = prepare(expert, constant)
    assert (data.offline.s == 0).all()
    np.testing.assert_allclose(data.normaliser.scale, SCALE_OFFSET)


def test_initial_states_are_first_states_by_default_and_all_states_on_request(episodes):
    expert = numbered([2], [False], offset=100.5)
    first, every = prepare(expert, episodes), prepare(expert, episodes, initial="all")
    np.testing.assert_array_equal(first.init, first.offline.s[[0, 2, 3]])
    np.testing.assert_array_equal(every.init, every.offline.s)


def test_actions_are_scaled_to_the_unit_box_and_back():
    box = Box((-2.0, 0.0), (4.0, 10.0))
    actions = np.array([[-2.0, 10.0], [1.0, 5.0]], np.float32)
    np.testing.assert_allclose(box.encode(actions), [[-1, 1], [0, 0]])
    np.testing.assert_allclose(box.decode(box.encode(actions)), actions)
    wide = numbered([3], [False], low=-2.0, high=4.0)
    expert = numbered([2], [False], offset=100.5)
    encoded = prepare(expert, wide).offline.a
    np.testing.assert_allclose(encoded[:, 0], (np.arange(3) / 1000 - 1) / 3, rtol=1e-5)


def test_discrete_actions_stay_integers(episodes):
    offline = Episodes.from_arrays(np.arange(4.0)[:, None], lengths=[3], actions=[2, 0, 1])
    expert = Episodes.from_arrays([[0.5], [1.5]], lengths=[1])
    data = prepare(expert, offline)
    assert data.offline.a.tolist() == [2, 0, 1] and data.offline.a.dtype == np.int64
    assert data.action_space.n == 3  # pyright: ignore[reportAttributeAccessIssue]


def test_source_labels_follow_each_transition_and_each_end(episodes):
    both = mixture({"good": episodes.first(1), "bad": episodes.first(2, skip=1)})
    expert = numbered([2], [False], offset=100.5)
    data = prepare(expert, both)
    assert data.ends is not None
    of_steps, of_ends = (
        [data.source_names[i] for i in source] for source in (data.source, data.ends.source)
    )
    assert of_steps == ["good"] * 2 + ["bad"] * 4
    assert of_ends == ["good", "bad"]


def test_expert_pairs_in_the_offline_data_are_counted_and_refused(episodes):
    with pytest.raises(LobsDICEError, match=r"^2 of the 2 demonstrated pairs"):
        prepare(episodes.first(1).without_actions(), episodes)
    prepare(episodes.first(1).without_actions(), episodes, allow_leak=True)


def test_the_leak_check_finds_exactly_the_shared_pairs():
    rng = np.random.default_rng(0)
    offline = observations(Episodes.from_arrays(rng.normal(size=(2001, 3)), lengths=[2000]))
    fresh = observations(Episodes.from_arrays(rng.normal(size=(501, 3)), lengths=[500]))
    planted = rng.random(500) < 0.3
    s, s_next = fresh.s.copy(), fresh.s_next.copy()
    where = rng.integers(0, 2000, planted.sum())
    s[planted], s_next[planted] = offline.s[where], offline.s_next[where]
    assert count_leaked(store(Observations(s, s_next)), offline) == planted.sum()


@pytest.mark.parametrize(
    ("feature", "complaint"),
    [
        (1e-6 * np.arange(6), "feature flow is nearly constant .* deviation is only 1.4e-06"),
        (5.4e6 + np.arange(6), "deviation is 1.4, but float32 numbers near 5.4e.06 are 0.5 apart"),
    ],
)
def test_units_in_which_a_learner_sees_little_of_a_feature_are_worth_a_warning(feature, complaint):
    rows = np.stack([np.arange(6.0), feature], axis=1)
    offline = Episodes.from_arrays(
        rows, lengths=[5], actions=np.zeros((5, 1)), observation_names=["level", "flow"]
    )
    with pytest.warns(DataWarning, match=complaint):
        prepare(Episodes.from_arrays(rows[:2] + 7, lengths=[1]), offline)


def test_a_pair_that_shares_only_its_first_state_is_no_leak(episodes):
    expert = Episodes.from_arrays([[0.0, 0.0], [9.0, 9.0]], lengths=[1])
    assert len(prepare(expert, episodes).expert.s) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"expert": numbered([2], [False], width=3)},
            "the expert data has observations of 3 numbers",
        ),
        (
            {"expert": numbered([2], [False]).without_actions()}
            | {"offline": numbered([2], [False]).without_actions()},
            "only demonstrations may lack them",
        ),
        (
            {"offline": numbered([2], [False]).without_actions()},
            "no actions, but the expert data has some: are the two swapped",
        ),
        ({"initial": "some"}, "`initial` is 'some'; it must be one of 'first', 'all'"),
        ({"every": 0}, "cannot keep every 0-th transition"),
    ],
)
def test_bad_arguments_are_told_in_a_sentence(arguments, message, episodes):
    given = {"expert": numbered([2], [False], offset=100.5), "offline": episodes} | arguments
    with pytest.raises(LobsDICEError, match=message):
        prepare(given.pop("expert"), given.pop("offline"), **given)


def test_a_column_that_has_another_name_among_those_of_the_same_names_is_worth_a_warning(episodes):
    expert = numbered([2], [False], offset=100.5)

    def prepared(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
        named = zip((expert, episodes), (ours, theirs), strict=True)
        prepare(*(replace(data, observation_names=names) for data, names in named))

    with pytest.warns(DataWarning, match="than the offline data: 'vy' is taken for 'vz'$"):
        prepared(("vx", "vy"), ("vx", "vz"))
    prepared(("vx", "vy"), ("u", "v"))
    prepared(("vx", "vy"), ())
    prepared(("vx", "vy*0.001"), ("vx", "vy"))


def test_steps_to_a_final_state_and_demonstrations_are_told_apart(episodes):
    data = prepare(numbered([2, 4], [False, True], offset=100.5), episodes, every=2)
    assert data.ended is not None and data.expert_episode is not None
    assert data.ended.tolist() == [False, True, False, False, False, True]
    assert data.expert_episode.tolist() == [0, 1, 1]


def test_rewards_are_the_files_unless_others_are_given(episodes):
    expert = numbered([2], [False], offset=100.5)
    recorded = replace(episodes, rewards=np.arange(6, dtype=np.float32), valid=True)
    assert prepare(expert, episodes).rewards is None
    np.testing.assert_array_equal(prepare(expert, recorded).rewards, range(6))
    given = prepare(expert, recorded, rewards=[5, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(given.rewards, range(6)[::-1])

    def by_rows(s, a, s_next):  # in the files' units
        return s[:, 0] + 100 * s_next[:, 1] + 1000 * a[:, 0]

    expected = [100, 202, 405, 608, 710, 812]
    computed = prepare(expert, recorded, rewards=by_rows).rewards
    assert computed is not None
    np.testing.assert_allclose(computed, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([1.0], "`rewards` has 1 numbers; the logs have 6 steps"),
        ([1.0] * 5 + [np.nan], "rewards"),
        (lambda s, a, s_next: s, "rewards has the shape"),
    ],
)
def test_rewards_that_do_not_fit_are_refused(rewards, message, episodes):
    with pytest.raises(LobsDICEError, match=message):
        prepare(numbered([2], [False], offset=100.5), episodes, rewards=rewards)
