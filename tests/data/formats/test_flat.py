"""The ends of episodes in flat transitions, in HDF5 files of D4RL and in archives."""

import h5py
import numpy as np
import pytest

from lobsdice.data.formats import ReadOptions, read
from lobsdice.data.formats.flat import BLOCK
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import DataWarning

pytestmark = pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")

#: Rows of three episodes, of 2, 3 and 1 steps; every state is its own number.
STATES = [[0.0, 1, 2], [10, 11, 12, 13], [20, 21]]


def flat(**changes):
    arrays = {
        "observations": np.array([s for states in STATES for s in states[:-1]])[:, None],
        "next_observations": np.array([s for states in STATES for s in states[1:]])[:, None],
        "actions": np.linspace(-1, 1, 6)[:, None],
        "rewards": np.arange(6.0),
        "terminals": np.array([0, 1, 0, 0, 0, 0], bool),
        "timeouts": np.array([0, 0, 0, 0, 1, 0], bool),
    }
    return {k: v for k, v in (arrays | changes).items() if v is not None}


@pytest.fixture(params=["data.npz", "data.hdf5"])
def save(request, tmp_path):
    def write(arrays):
        path = tmp_path / request.param
        if path.suffix == ".npz":
            np.savez(path, **arrays)
        else:
            with h5py.File(path, "w") as file:
                for key, array in arrays.items():
                    file[key] = array
        return path

    return write


def states_of(episodes):
    sets = np.split(episodes.observations[:, 0], episodes.starts[1:])
    return [states.tolist() for states in sets]


def test_every_final_state_is_kept(save):
    episodes = read(save(flat()))
    assert states_of(episodes) == STATES
    assert episodes.lengths.tolist() == [2, 3, 1]
    np.testing.assert_array_equal(episodes.actions, flat()["actions"].astype(np.float32))
    np.testing.assert_array_equal(episodes.rewards, flat()["rewards"])


def test_data_that_ends_in_the_middle_of_an_episode_is_truncated(save):
    assert read(save(flat())).terminated.tolist() == [True, False, False]


def test_both_flags_at_once_mean_terminated(save):
    both = np.array([0, 1, 0, 0, 1, 0], bool)
    episodes = read(save(flat(terminals=both, timeouts=both)))
    assert episodes.terminated.tolist() == [True, True, False]


def test_an_end_without_a_flag_is_a_cut(save):
    path = save(flat(timeouts=np.zeros(6, bool)))
    with pytest.warns(DataWarning, match="1 unmarked episode end found"):
        episodes = read(path)
    assert states_of(episodes) == STATES
    assert episodes.terminated.tolist() == [True, False, False]


def test_without_timeouts_next_observations_show_the_cuts(save):
    assert states_of(read(save(flat(timeouts=None)))) == STATES


def test_a_flag_ends_an_episode_whose_last_state_is_the_next_one_s_first(save):
    changed = flat()["next_observations"].copy()
    changed[1] = 10
    assert states_of(read(save(flat(next_observations=changed))))[0] == [0, 1, 10]


def test_without_next_observations_the_last_action_of_an_episode_goes(save):
    path = save(flat(next_observations=None))
    with pytest.warns(DataWarning, match="3 transitions dropped, and 1 episode of one row"):
        episodes = read(path)
    assert states_of(episodes) == [[0, 1], [10, 11, 12]]
    assert not episodes.terminated.any()
    kept = [0, 2, 3]
    np.testing.assert_array_equal(episodes.actions, flat()["actions"][kept].astype(np.float32))
    np.testing.assert_array_equal(episodes.rewards, kept)


def test_without_any_mark_of_cuts_the_reader_says_so(save):
    path = save(flat(next_observations=None, timeouts=None))
    with pytest.warns(
        DataWarning, match="neither timeouts nor next_observations, so that only terminals"
    ):
        read(path)


def test_expert_files_need_no_actions(save):
    episodes = read(save(flat(actions=None, rewards=None)))
    assert episodes.actions is None and episodes.action_space is None
    assert states_of(episodes) == STATES


def test_integer_actions_are_discrete(save):
    episodes = read(save(flat(actions=np.array([0, 1, 2, 0, 1, 2]))))
    assert episodes.action_space == Discrete(3)
    assert episodes.actions is not None and episodes.actions.dtype == np.int64


def test_integer_actions_are_continuous_if_the_user_says_so(save):
    path = save(flat(actions=np.array([0, 1, 0, 0, 1, -1])))
    episodes = read(path, ReadOptions(action_kind="continuous"))
    assert episodes.action_space == Box.of([-1], [1])


def test_the_user_s_bounds_apply(save):
    options = ReadOptions(action_low=(-3.0,), action_high=(5.0,))
    assert read(save(flat()), options).action_space == Box.of([-3], [5])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_other_types_of_numbers_are_converted(save, dtype):
    arrays = flat()
    for key in ("observations", "next_observations"):
        arrays[key] = arrays[key].astype(dtype)
    arrays["terminals"] = arrays["terminals"].astype(np.float32)[:, None]
    assert states_of(read(save(arrays))) == STATES


def test_other_names_of_the_keys_are_known(save):
    arrays = flat()
    arrays["dones"] = arrays.pop("terminals")
    arrays["next_obs"] = arrays.pop("next_observations")
    assert states_of(read(save(arrays))) == STATES


@pytest.mark.parametrize("storage", [{}, {"compression": "gzip"}, {"chunks": (7, 1)}])
def test_blocks_of_a_long_file_fit_together(storage, tmp_path):
    rng = np.random.default_rng(0)
    rows = 3 * BLOCK
    following = rng.normal(size=(rows, 3)).astype(np.float32)
    observed = np.roll(following, 1, axis=0)
    ends = rng.random(rows) < 0.01
    # Block borders fall on these rows, with and without an end before them.
    ends[[BLOCK - 1, 2 * BLOCK - 1]] = [True, False]
    observed[1:][ends[:-1]] += 1
    with h5py.File(tmp_path / "long.hdf5", "w") as file:
        file.create_dataset("observations", data=observed, **storage)
        file.create_dataset("next_observations", data=following, **storage)
        file["terminals"] = ends
    episodes = read(tmp_path / "long.hdf5")
    np.testing.assert_array_equal(episodes.observations[episodes.step_rows], observed)
    np.testing.assert_array_equal(episodes.observations[episodes.step_rows + 1], following)
    np.testing.assert_array_equal(np.cumsum(episodes.lengths)[:-1] - 1, np.flatnonzero(ends[:-1]))


@pytest.mark.parametrize("name", ["success", "is_success"])
def test_success_is_one_number_a_step_or_one_an_episode(save, name):
    a_step = np.array([0, 1, 0, 0, 0, 0], bool)
    np.testing.assert_array_equal(read(save(flat(**{name: a_step}))).success, [1, 0, 0])
    an_episode = np.array([0, -1, 1])
    np.testing.assert_array_equal(read(save(flat(**{name: an_episode}))).success, [0, -1, 1])
    # Without the next observations, the episode of one row is dropped.
    shorter = flat(**{name: an_episode}, next_observations=None)
    np.testing.assert_array_equal(read(save(shorter)).success, [0, -1])
