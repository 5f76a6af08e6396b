"""Episodes from tables, arrays and the objects of other libraries.

Stable-Baselines3, d3rlpy and imitation need PyTorch, which the tests do not install. The stand-ins
have the attributes of their objects as the libraries document them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import DataWarning, LobsDICEError

Found = TypeVar("Found")


def some(found: Found | None) -> Found:
    assert found is not None
    return found


# ---- Tables ----

TABLE = {
    "run": ["a", "a", "b", "b", "b"],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0],
    "go": ["left", None, "right", "left", None],
}


@pytest.mark.parametrize("make", [polars.DataFrame, pandas.DataFrame, pa.table, dict])
def test_a_table_of_any_library_is_read_like_a_file(make):
    columns = {"observation_columns": "x", "action_columns": ["go"], "episode_column": "run"}
    found = Episodes.from_dataframe(make(TABLE), **columns)
    assert found.lengths.tolist() == [1, 2] and found.episode_names == ("a", "b")
    assert found.action_space == Discrete(2, ("left", "right"))
    assert some(found.actions).tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [polars.Categorical, polars.Enum(["left", "right", "up"])])
def test_categories_of_polars_are_texts(kind):
    frame = polars.DataFrame(TABLE).with_columns(polars.col("go").cast(kind))
    found = Episodes.from_dataframe(
        frame, episode_column="run", observation_columns="x", action_columns="go"
    )
    assert found.action_space == Discrete(2, ("left", "right"))


def test_repeated_rows_are_compared_in_the_columns_that_are_read():
    frame = pandas.DataFrame(
        {"run": "a", "t": [0, 1, 1, 2], "x": [1.0, 2, 2, 3], "note": [*"abcd"]}
    )
    with pytest.warns(DataWarning, match="1 repeated row left out"):  # pandas adds its index, too
        found = Episodes.from_dataframe(
            frame.drop(index=0), episode_column="run", step_column="t", observation_columns="x"
        )
    assert found.observations[:, 0].tolist() == [2, 3]


def test_a_table_is_scaled_and_its_errors_are_sentences():
    columns = {"observation_columns": ["x"], "episode_column": "run"}
    found = Episodes.from_dataframe(TABLE, scale={"x": 10.0}, **columns)
    np.testing.assert_array_equal(found.observations[:, 0], [10, 20, 30, 40, 50])
    with pytest.raises(LobsDICEError, match="no column tells the episodes apart"):
        Episodes.from_dataframe(TABLE, observation_columns=["x"])
    with pytest.raises(LobsDICEError, match="a value of type int is not a table; give one"):
        Episodes.from_dataframe(3)


# ---- Transitions ----


def test_transitions_are_cut_at_marks_and_where_states_jump():
    s = np.arange(6.0)[:, None]
    with pytest.warns(DataWarning, match="1 unmarked episode end found"):
        found = Episodes.from_transitions(
            s,
            next_observations=np.array([[1.0], [2.0], [9.0], [4.0], [5.0], [6.0]]),
            actions=np.array([[1.0], [-1.0], [0.0], [0.0], [0.0], [1.0]]),
            terminated=[0, 0, 0, 1, 0, 0],
            action_space=Box((-1.0,), (1.0,)),
        )
    assert found.lengths.tolist() == [3, 1, 2] and found.terminated.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(found.observations[found.ends, 0], [9, 4, 6])


def buffer(time: int, *, full: bool, shared: bool = False) -> tuple[Any, list[np.ndarray]]:
    """A replay buffer of two environments after some steps, and the states of each environment.

    Episodes of the first one end after 4 steps at a time limit, those of the second after 6.
    """
    size = 10 if full else time + 1
    arrays = {
        "observations": np.zeros((size, 2, 1)),
        "next_observations": None if shared else np.zeros((size, 2, 1)),
        "actions": np.zeros((size, 2, 1)),
        "rewards": np.zeros((size, 2)),
        "dones": np.zeros((size, 2)),
        "timeouts": np.zeros((size, 2)),
    }
    found = SimpleNamespace(**arrays, pos=0, full=False)
    state, steps = np.array([0.0, 1000.0]), np.zeros(2, int)
    for t in range(time):
        place, steps = found.pos, steps + 1
        found.observations[place, :, 0] = state
        found.actions[place] = 2 * (t % 2) - 1
        done = steps == [4, 6]
        after = state + 1
        if shared:  # as with `optimize_memory_usage`
            found.observations[(place + 1) % size, :, 0] = after
        else:
            found.next_observations[place, :, 0] = after
        found.dones[place], found.timeouts[place, 0] = done, done[0]
        state, steps = after + 100 * done, steps * ~done
        found.pos = (place + 1) % size
        found.full = found.full or found.pos == 0
    return found, []


@pytest.mark.parametrize("full", [False, True])
def test_a_replay_buffer_is_read_in_the_order_of_time(full):
    held, _ = buffer(17, full=full)
    found = Episodes.from_transitions(held)
    ends = found.observations[found.ends, 0] - found.observations[found.starts, 0]
    np.testing.assert_array_equal(ends, found.lengths)  # no step leads from one episode to another
    wanted = [1, 4, 4, 1, 5, 5] if full else [4, 4, 4, 4, 1, 6, 6, 5]
    assert found.lengths.tolist() == wanted
    ended = [0, 0, 0, 0, 1, 0] if full else [0, 0, 0, 0, 0, 1, 1, 0]
    assert found.terminated.tolist() == [bool(x) for x in ended]


@pytest.mark.parametrize(
    ("time", "full", "lengths", "ended"),
    [
        (9, False, [3, 3, 1, 5, 3], []),
        (17, True, [3, 3, 1, 3, 5], []),
        (12, False, [3, 3, 4, 5, 6], [2, 4]),
        (22, True, [2, 3, 2, 4, 4], []),
    ],
)
def test_a_buffer_that_stores_each_state_once_loses_the_last_steps_of_episodes(
    time, full, lengths, ended
):
    """But for the newest step: no later state has taken the place of its result."""
    held, _ = buffer(time, full=full, shared=True)
    held.timeouts = None  # such buffers do not tell time limits from other ends
    with pytest.warns(DataWarning, match=r"last step of \d episodes left out"):
        found = Episodes.from_transitions(held)
    assert found.lengths.tolist() == lengths
    assert np.flatnonzero(found.terminated).tolist() == ended
    gone = found.observations[found.ends, 0] - found.observations[found.starts, 0]
    np.testing.assert_array_equal(gone, found.lengths)


def test_a_buffer_that_stores_each_state_once_and_whose_episodes_go_on_loses_no_step():
    held, _ = buffer(3, full=False, shared=True)
    assert Episodes.from_transitions(held).lengths.tolist() == [3, 3]


class Sampled(SimpleNamespace, Sequence):
    """As imitation's transitions: also a sequence, of one dictionary a row."""

    def __len__(self):
        return len(self.obs)

    def __getitem__(self, i: Any) -> Any:
        return {"obs": self.obs[i]}


def test_transitions_of_imitation_are_read():
    rows = np.array([[0.0], [1.0], [5.0]])
    dones = [False, True, False]
    flat = Sampled(obs=rows, next_obs=rows + 1, acts=np.array([0, 2, 1]), dones=dones)
    with pytest.warns(DataWarning, match="3 were assumed"):
        found = Episodes.from_transitions(flat)
    assert found.lengths.tolist() == [2, 1] and found.terminated.tolist() == [True, False]


def test_something_without_transitions_is_a_sentence():
    with pytest.raises(LobsDICEError, match="a value of type object holds no transitions; give"):
        Episodes.from_transitions(object())
    with pytest.raises(LobsDICEError, match="replay buffer is empty"):
        Episodes.from_transitions(buffer(0, full=False)[0])


# ---- Episodes ----


@dataclass
class Trajectory:
    """As imitation's: T+1 observations and T actions."""

    obs: np.ndarray
    acts: np.ndarray
    terminal: bool
    rews: np.ndarray
    infos: list = field(default_factory=list)


@dataclass
class Recorded:
    """As d3rlpy's episodes: T observations and T actions."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool


ACTIONS = np.array([[-1.0], [0.5], [1.0]])
ROWS = np.arange(8.0).reshape(4, 2)


def test_trajectories_of_imitation_are_read():
    shown = [
        Trajectory(ROWS, ACTIONS, True, np.ones(3)),
        Trajectory(ROWS[:3], ACTIONS[:2], False, ROWS[:2, 0]),
    ]
    found = Episodes.from_episodes(shown)
    assert found.lengths.tolist() == [3, 2] and found.terminated.tolist() == [True, False]
    assert some(found.rewards).tolist() == [1, 1, 1, 0, 2]


def test_a_dataset_of_d3rlpy_loses_the_actions_without_a_result():
    recorded = Recorded(ROWS, np.append(ACTIONS, [[9.0]], axis=0), np.arange(4.0)[:, None], True)
    with pytest.warns(DataWarning, match="the last action of 1 episode left out"):
        found = Episodes.from_episodes(SimpleNamespace(episodes=[recorded]))
    assert found.lengths.tolist() == [3] and not found.terminated.any()
    np.testing.assert_array_equal(found.actions, ACTIONS)
    assert some(found.rewards).tolist() == [0, 1, 2]


def test_dictionaries_with_parts_of_observations_are_read():
    parts = {"place": ROWS, "speed": np.arange(4.0)}
    shown = {"observations": parts, "actions": ACTIONS, "terminated": True, "success": 0}
    other = shown | {"observations": {"place": ROWS + 1, "speed": ROWS[:, 0]}}
    found = Episodes.from_episodes([shown, other | {"success": [0, 0, 1]}])
    assert found.state_size == 3 and some(found.success).tolist() == [0, 1]
    assert Episodes.from_episodes({"observations": ROWS}).actions is None


def test_something_without_observations_is_a_sentence():
    with pytest.raises(LobsDICEError, match="episode 1: a value of type int has no observations"):
        Episodes.from_episodes([{"observations": ROWS}, 3])
