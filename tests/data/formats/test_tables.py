"""CSV and Parquet files that others wrote."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from lobsdice.data.formats import ReadOptions, read
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import DataWarning, LobsDICEError

TABLE = {
    "episode": ["b", "b", "b", "a", "a"],
    "obs_0": [0.0, 1, 2, 10, 11],
    "obs_1": [5.0, 6, 7, 8, 9],
    "action_0": [0.5, -1, None, 1, None],
    "reward": [1.0, 2, None, 3, None],
    "terminated": [False, False, True, False, False],
}


@pytest.fixture(params=[".csv", ".tsv", ".parquet"])
def save(request, tmp_path):
    def write(columns):
        path = tmp_path / f"data{request.param}"
        table = pa.table({k: v for k, v in columns.items() if v is not None})
        if request.param == ".parquet":
            parquet.write_table(table, path)
        else:
            delimiter = "\t" if request.param == ".tsv" else ","
            csv.write_csv(table, path, csv.WriteOptions(delimiter=delimiter))
        return path

    return write


def test_the_last_row_of_an_episode_is_its_final_state(save):
    episodes = read(save(TABLE))
    assert episodes.lengths.tolist() == [2, 1]
    assert episodes.terminated.tolist() == [True, False]
    np.testing.assert_array_equal(
        episodes.observations, np.stack([TABLE["obs_0"], TABLE["obs_1"]], axis=1)
    )
    np.testing.assert_array_equal(episodes.actions, [[0.5], [-1], [1]])
    np.testing.assert_array_equal(episodes.rewards, [1, 2, 3])


def test_the_row_of_the_last_step_may_mark_termination(save):
    flags = [False, True, False, True, False]
    assert read(save(TABLE | {"terminated": flags})).terminated.tolist() == [True, True]


def test_an_episode_succeeded_if_one_of_its_cells_says_so(save):
    seldom = [None, True, None, False, None]
    np.testing.assert_array_equal(read(save(TABLE | {"success": seldom})).success, [1, 0])
    np.testing.assert_array_equal(
        read(save(TABLE | {"is_success": [0, 1, 0, 0, 0]})).success, [1, 0]
    )
    partly = [None, None, None, None, 1]
    np.testing.assert_array_equal(read(save(TABLE | {"success": partly})).success, [-1, 1])
    assert read(save(TABLE | {"success": [None] * 5})).success is None
    named = ReadOptions(success_column="solved")
    np.testing.assert_array_equal(
        read(save(TABLE | {"solved": [1, 1, 1, 0, 0]}), named).success, [1, 0]
    )


def test_success_follows_the_order_of_steps(save):
    columns = TABLE | {"episode": list("abaab"), "step": [2, 0, 0, 1, 1], "reward": None}
    columns |= {"action_0": [None, 1, -1.0, 0.5, None], "terminated": [0, 0, 0, 0, 0]}
    np.testing.assert_array_equal(
        read(save(columns | {"success": [0, 1, 0, 0, 0]})).success, [0, 1]
    )


def test_another_column_may_mark_termination(save):
    columns = TABLE | {"terminated": None, "done": TABLE["terminated"]}
    with pytest.warns(DataWarning, match="'done' may mark ends"):
        episodes = read(save(columns))
    assert episodes.terminated.tolist() == [False, False] and episodes.unread == ("done",)
    named = read(save(columns), ReadOptions(terminated_column="done"))
    assert named.terminated.tolist() == [True, False] and not named.unread


def test_episodes_as_long_as_the_time_limit_count_as_truncated(save):
    path = save(TABLE | {"terminated": [False, False, True, False, True]})
    assert read(path).terminated.tolist() == [True, True]
    assert read(path, ReadOptions(time_limit=2)).terminated.tolist() == [False, True]
    with pytest.warns(
        DataWarning, match="1 episode took longer than `time_limit`: episode b has 2"
    ):
        assert read(path, ReadOptions(time_limit=1)).terminated.tolist() == [True, False]


def test_an_action_in_the_last_row_is_ignored_with_a_warning(save):
    path = save(TABLE | {"action_0": [0.5, -1, 0.25, 1, None]})
    said = "the last row of 1 episode holds an action .* ignored, and 1 mark of termination"
    with pytest.warns(DataWarning, match=said):
        episodes = read(path)
    np.testing.assert_array_equal(episodes.actions, [[0.5], [-1], [1]])
    # The file does not say if the state after that action was terminal.
    assert episodes.terminated.tolist() == [False, False]


def test_steps_order_the_rows_and_episodes_may_be_interleaved(save):
    order = [3, 1, 4, 0, 2]
    mixed = {key: [values[i] for i in order] for key, values in TABLE.items()}
    steps = [[0, 1, 2, 0, 1][i] for i in order]
    episodes = read(save(mixed | {"step": steps}))
    assert episodes.lengths.tolist() == [1, 2]
    assert episodes.observations[:, 0].tolist() == [10, 11, 0, 1, 2]
    np.testing.assert_array_equal(episodes.actions, [[1], [0.5], [-1]])


def test_times_order_rows(save):
    times = [f"2026-03-01T08:00:0{second}" for second in ("2", "0.5", "1", "0", "1")]
    path = save(TABLE | {"action_0": None, "reward": None, "terminated": None, "time": times})
    episodes = read(path, ReadOptions(step_column="time"))
    assert episodes.observations[:, 0].tolist() == [1, 2, 0, 10, 11]


def test_expert_tables_need_no_actions(save):
    assert read(save(TABLE | {"action_0": None})).actions is None


def test_empty_columns_of_actions_and_rewards_count_as_absent(save):
    empty = pa.array([None] * 5, pa.float32())
    episodes = read(save(TABLE | {"action_0": empty, "reward": empty}))
    assert episodes.actions is None and episodes.rewards is None


def test_whole_numbers_in_one_column_are_discrete(save):
    path = save(TABLE | {"action_0": [0, 1, None, 2, None]})
    with pytest.warns(DataWarning, match="3 were assumed, from the largest action in it"):
        assert read(path).action_space == Discrete(3)
    episodes = read(
        path, ReadOptions(action_kind="continuous", action_low=(0.0,), action_high=(2.0,))
    )
    assert episodes.action_space == Box.of([0], [2])


def test_numbered_columns_are_sorted_by_their_number(save):
    columns = {f"obs_{i}": [float(i), 1, 2, 3, 4] for i in (10, 2, 1)}
    episodes = read(save({"episode": TABLE["episode"]} | columns))
    assert episodes.observations[0].tolist() == [1, 2, 10]


def test_patterns_choose_the_columns(save):
    columns = {
        "run": [1, 1, 1, 2, 2],
        "joint_hip": [0.0, 1, 2, 3, 4],
        "joint_knee": [0.0, 2, 3, 4, 5],
        "torque": [1.0, 2, None, 3, None],
        "score": [1.0, 1, None, 1, None],
        "note": list("abcde"),
    }
    options = ReadOptions(
        episode_column="run",
        observation_columns=("joint_*",),
        action_columns=("torque",),
        reward_column="score",
        action_low=(0.0,),
        action_high=(4.0,),
    )
    episodes = read(save(columns), options)
    assert episodes.lengths.tolist() == [2, 1]
    assert episodes.state_size == 2
    np.testing.assert_array_equal(episodes.actions, [[1], [2], [3]])
    np.testing.assert_array_equal(episodes.rewards, [1, 1, 1])


def test_columns_come_in_the_order_in_which_they_are_named(save):
    path = save(TABLE | {"speed": [4.0, 3, 2, 1, 0]})
    named = ReadOptions(observation_columns=("speed", "obs_1", "obs_*"))
    assert read(path, named).observations[0].tolist() == [4, 5, 0]


def test_demonstrations_may_lack_the_columns_that_are_named_for_actions(save):
    options = ReadOptions(action_columns=("torque*", "grip")).unlabelled()
    assert read(save(TABLE), options).actions is None
    with pytest.raises(LobsDICEError, match="'grip' matches no column"):
        read(save(TABLE | {"torque_0": TABLE["action_0"]}), options)
    assert read(save(TABLE), ReadOptions().unlabelled()).actions is not None


def test_demonstrations_may_lack_the_column_of_rewards(save):
    options = ReadOptions(reward_column="gain")
    with pytest.raises(LobsDICEError, match="there is no column 'gain'"):
        read(save(TABLE), options)
    assert read(save(TABLE | {"reward": None}), options.unlabelled()).rewards is None


def test_a_parquet_column_of_lists_counts_as_several(tmp_path):
    states = np.arange(10.0).reshape(5, 2)
    table = pa.table(
        {
            "episode_index": [0, 0, 0, 1, 1],
            "frame_index": [0, 1, 2, 0, 1],
            "observation.state": pa.FixedSizeListArray.from_arrays(states.ravel(), 2),
            "action": pa.array([[0.5], [1.0], None, [-1.0], None], pa.list_(pa.float32())),
        }
    )
    parquet.write_table(table, tmp_path / "data.parquet")
    episodes = read(tmp_path / "data.parquet")
    np.testing.assert_array_equal(episodes.observations, states)
    np.testing.assert_array_equal(episodes.actions, [[0.5], [1], [-1]])


def test_categories_and_decimals_are_read_as_what_they_stand_for(tmp_path):
    table = pa.table(
        {
            "episode": pa.array(["x", "x", "y", "y"]).dictionary_encode(),
            "obs_0": pa.array([1, 2, 3, 5]).cast(pa.decimal128(21, 2)),
            "obs_1": [True, False, False, True],
        }
    )
    parquet.write_table(table, tmp_path / "data.parquet")
    episodes = read(tmp_path / "data.parquet")
    np.testing.assert_array_equal(episodes.observations, [[1, 1], [2, 0], [3, 0], [5, 1]])
