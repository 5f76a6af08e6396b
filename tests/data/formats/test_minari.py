"""Datasets made by minari itself, with both of its backends."""

import warnings
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from lobsdice.data.formats import read, write
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import DataWarning, LobsDICEError

spaces = gymnasium.spaces
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float64)
ACTION = spaces.Box(-2, 2, (2,), np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["hdf5", "arrow"])
def create(request):
    """Make a dataset of two episodes, of 2 steps (terminated) and 1 step (truncated)."""

    def make(actions, action_space, observe=lambda x: x, observation_space=VECTOR, infos=({}, {})):
        states = np.random.default_rng(0).normal(size=(5, 3))
        buffers = [
            EpisodeBuffer(
                observations=observe(states[rows]),
                actions=actions[steps],
                rewards=[1.0] * len(actions[steps]),
                terminations=ends,
                truncations=cuts,
                infos=info,
            )
            for rows, steps, ends, cuts, info in (
                (slice(0, 3), slice(0, 2), [False, True], [False, False], infos[0]),
                (slice(3, 5), slice(2, 3), [False], [True], infos[1]),
            )
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # minari asks for authors and such
            minari.create_dataset_from_buffers(
                "test/small-v0",
                buffers,
                observation_space=observation_space,
                action_space=action_space,
                data_format=request.param,
            )
        return states

    return make


def continuous():
    return np.linspace(-2, 2, 6).reshape(3, 2).astype(np.float32)


def test_a_dataset_is_read_by_its_id_in_the_cache(create):
    states = create(continuous(), ACTION)
    episodes = read("test/small-v0")
    np.testing.assert_array_equal(episodes.observations, states.astype(np.float32))
    np.testing.assert_array_equal(episodes.actions, continuous())
    assert episodes.lengths.tolist() == [2, 1]
    assert episodes.terminated.tolist() == [True, False]
    assert episodes.action_space == Box.of([-2, -2], [2, 2])
    np.testing.assert_array_equal(episodes.rewards, [1, 1, 1])


@pytest.mark.parametrize("part", ["", "data"])
def test_a_dataset_is_read_from_its_folder(create, cache, part):
    create(continuous(), ACTION)
    assert read(cache / "test" / "small-v0" / part).lengths.tolist() == [2, 1]


def test_discrete_actions_are_read(create):
    create(np.array([0, 3, 1]), spaces.Discrete(4))
    episodes = read("test/small-v0")
    assert episodes.action_space == Discrete(4)
    assert episodes.actions is not None and episodes.actions.tolist() == [0, 3, 1]


def test_parts_of_an_observation_are_put_side_by_side(create):
    def observe(x):
        return {"position": x[:, :1], "speed": x[:, 1:]}

    box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    space = spaces.Dict({"position": box, "speed": spaces.Box(-np.inf, np.inf, (2,), np.float64)})
    states = create(continuous(), ACTION, observe, space)
    np.testing.assert_array_equal(read("test/small-v0").observations, states.astype(np.float32))


def test_bounds_that_are_not_finite_are_taken_from_the_data(create):
    create(continuous(), spaces.Box(-np.inf, np.inf, (2,), np.float32))
    with pytest.warns(DataWarning, match="its smallest and largest actions were taken"):
        space = read("test/small-v0").action_space
    low, high = continuous().min(axis=0), continuous().max(axis=0)
    assert space == Box.of(low, high)


def test_spaces_that_are_no_vectors_are_refused(create):
    create(np.array([[0, 1], [1, 1], [0, 0]]), spaces.MultiDiscrete([2, 2]))
    with pytest.raises(
        LobsDICEError, match=r"the action space MultiDiscrete\(.*\) is not a vector"
    ):
        read("test/small-v0")


def test_discrete_actions_that_do_not_start_at_0_are_refused(create):
    create(np.array([1, 2, 3]), spaces.Discrete(3, start=1))
    with pytest.raises(LobsDICEError, match="must start at 0, not at 1"):
        read("test/small-v0")


def test_long_episodes_are_read_whole_or_refused(cache):
    steps = 40_000
    parts: dict[str, Any] = {
        "observations": np.random.default_rng(0).normal(size=(steps + 1, 3)),
        "actions": np.zeros((steps, 2), np.float32),
        "rewards": np.zeros(steps),
        "terminations": np.zeros(steps, bool),
        "truncations": np.zeros(steps, bool),
        "infos": {},
    }
    for backend in ("hdf5", "arrow"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # minari asks for authors and such
            minari.create_dataset_from_buffers(
                f"{backend}-v0",
                [EpisodeBuffer(**parts)],
                observation_space=VECTOR,
                action_space=ACTION,
                data_format=backend,
            )
    assert read("hdf5-v0").steps == steps
    with pytest.raises(LobsDICEError, match="says 40000"):
        read("arrow-v0")


def test_infos_tell_success_from_failure(create):
    infos = ({"success": [False, True, True]}, {"success": [False, False]})
    create(continuous(), ACTION, infos=infos)
    np.testing.assert_array_equal(read("test/small-v0").success, [1, 0])


def test_infos_with_other_values_are_ignored_with_a_warning(create):
    create(continuous(), ACTION, infos=({"success": [0.0, 0.3, 0.7]}, {"success": [0.0, 0.1]}))
    with pytest.warns(DataWarning, match="whether episodes succeeded was not read: infos/success"):
        assert read("test/small-v0").success is None


def test_an_id_that_is_not_in_the_cache_is_not_downloaded():
    with pytest.raises(LobsDICEError, match="`minari download D4RL/door/human-v2`"):
        read("D4RL/door/human-v2")


def test_minari_reads_what_we_write(cache, episodes):
    write(cache / "ours-v0", episodes)
    dataset = minari.load_dataset("ours-v0")
    assert dataset.total_episodes == 3 and dataset.total_steps == 8
    for i, episode in enumerate(dataset.iterate_episodes()):
        start = episodes.starts[i]
        np.testing.assert_array_equal(
            episode.observations, episodes.observations[start : episodes.ends[i] + 1]
        )
        assert episode.terminations[-1] == episodes.terminated[i]
        assert episode.truncations[-1] != episodes.terminated[i]


def test_a_folder_with_other_things_in_it_is_not_replaced(tmp_path, episodes):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(LobsDICEError, match="was not replaced"):
        write(tmp_path / "home", episodes)
    assert (tmp_path / "home" / "thesis.tex").exists()
