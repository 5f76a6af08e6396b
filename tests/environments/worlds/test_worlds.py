"""What holds for every world: its ends, its controllers, its noise, and how it is found."""

import importlib.metadata
import os
import subprocess
import sys
from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.environments.evaluate import evaluate
from lobsdice.environments.gym import make
from lobsdice.environments.play import play
from lobsdice.environments.tasks.behaviour import behaviour_of
from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.table import WORLDS
from lobsdice.environments.tasks.task import fingerprint, load
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy

CALM = [name for name in WORLDS if not name.endswith("-noisy")]
#: The worlds whose return is 1 at success and 0 otherwise.
GOALS = [name for name in WORLDS if not name.startswith("cartpole")]
EPISODES = 20


@cache
def episodes(name: str, source: str) -> Episodes:
    return collect(name, {source: EPISODES}, seed=7, workers=1)[source]


def returns(name: str, source: str) -> np.ndarray:
    found = episodes(name, source).returns()
    assert found is not None
    return found


@pytest.mark.filterwarnings("ignore:.*infinity")  # Gymnasium's CartPole has no bound of its speed
@pytest.mark.parametrize("name", WORLDS)
def test_gymnasium_finds_no_fault(name):
    check_env(make(name, render_mode="rgb_array").unwrapped)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", WORLDS)
def test_only_noisy_worlds_draw_random_numbers_in_a_step(name):
    def states(disturbed: bool) -> np.ndarray:
        env = make(name).unwrapped  # type: ignore[attr-defined]
        observations, random = [env.reset(seed=3)[0]], np.random.default_rng(0)
        if disturbed:
            env.np_random.random()
        for _ in range(40):
            action = behaviour_of(WORLDS[name], "expert")(observations[-1], random)
            observations.append(env.step(action)[0])
        return np.stack(observations)

    calm, disturbed = states(False), states(True)
    assert (calm == states(False)).all()
    assert (calm == disturbed).all() == (name in CALM)


@pytest.mark.parametrize("name", CALM)
def test_the_demonstrator_always_succeeds_without_noise(name):
    assert (returns(name, "expert") == (1 if name in GOALS else 250)).all()


@pytest.mark.parametrize("name", WORLDS)
def test_no_other_source_comes_near_the_demonstrator(name):
    spec = WORLDS[name]
    expert, random = (spec.reference(source).mean for source in ("expert", "random"))
    best = 1 if name in GOALS else spec.max_steps
    assert random < 0.1 * best and expert > 0.9 * best
    for source in spec.sources[1:]:
        assert returns(name, source).mean() < 0.6 * expert, source


@pytest.mark.parametrize("name", GOALS)
def test_the_return_is_success_which_always_ends_an_episode(name):
    for source in WORLDS[name].sources:
        found = episodes(name, source)
        assert found.rewards is not None and set(found.rewards.tolist()) <= {0, 1}
        last = found.rewards[np.cumsum(found.lengths) - 1]
        assert (last == returns(name, source)).all()
        assert found.terminated[last == 1].all()


@pytest.mark.parametrize(
    ("name", "source", "ends"),
    [
        ("grid", "wrong", False),
        ("reach", "wrong", False),
        ("reach", "hasty", True),
        ("pointmaze", "wrong", False),
        ("pointmaze", "hasty", False),
        ("cartpole", "leaning", True),
        ("cartpole", "drifting", True),
    ],
)
def test_some_failures_end_the_episode_and_some_last_until_the_limit(name, source, ends):
    found = episodes(name, source)
    assert np.mean(found.terminated == ends) > 0.8
    assert (found.lengths[~found.terminated] == WORLDS[name].max_steps).all()


@pytest.mark.parametrize("name", GOALS)
def test_infos_tell_success(name):
    env, spec, random = make(name), WORLDS[name], np.random.default_rng(0)
    act = behaviour_of(spec, "expert")
    state, info = env.reset(seed=0)
    reward, ended, truncated = 0, False, False
    while not (ended or truncated):
        assert info["success"] is False
        state, reward, ended, truncated, info = env.step(act(np.asarray(state), random))
    assert info["success"] == (reward == 1)


@pytest.mark.parametrize("name", ["grid", "reach-noisy"])
def test_a_world_loads_as_every_task_does(name, monkeypatch, tmp_path, recwarn):
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path))
    first, again = (load(name, workers=1) for _ in range(2))
    assert first.offline.observations.tobytes() == again.offline.observations.tobytes()
    assert len(first.expert) == 5 and first.expert.actions is None
    assert first.offline.source is not None
    counts = dict(zip(first.offline.source_names, np.bincount(first.offline.source), strict=True))
    assert counts == {"expert": 30, "wrong": 90, "hasty": 90, "random": 90}
    assert len(again.labelled_data.offline.s) == first.offline.steps
    assert not len(recwarn)


def policy(name: str) -> Policy:
    spec, random = WORLDS[name], np.random.default_rng(0)
    sizes = [(spec.state_size, 16), (16, 16), (16, 4)]  # two numbers an action, or four actions
    weights = tuple(random.normal(size=size).astype(np.float32) for size in sizes)
    biases = tuple(np.zeros(outputs, np.float32) for _, outputs in sizes)
    ones = np.ones(spec.state_size, np.float32)
    return Policy(weights, biases, Normaliser(0 * ones, ones), spec.action_space)


@pytest.mark.parametrize("name", ["grid-noisy", "reach-noisy"])
def test_a_task_and_its_id_mean_the_same_environment(name, tmp_path):
    by_name, by_id = (
        evaluate([policy(name)], where, episodes=4, workers=1, stochastic=True)
        for where in (name, WORLDS[name].environment)
    )
    np.testing.assert_array_equal(by_name, by_id)
    shown = play(policy(name), name, episodes=2, stochastic=True, video=tmp_path / "a.gif")
    np.testing.assert_array_equal(shown, by_name[0, :2])


def test_gymnasium_makes_a_world_by_the_name_of_its_package_and_its_id():
    env = gymnasium.make("lobsdice.environments.worlds:lobsdice/ReachNoisy-v0")
    assert env.unwrapped.gust == WORLDS["reach-noisy"].options["gust"]  # type: ignore[attr-defined]
    with pytest.raises(LobsDICEError, match="cannot make 'lobsdice/Nowhere-v0'"):
        make("lobsdice/Nowhere-v0")


def test_episodes_are_collected_anew_when_the_code_of_their_world_changes(monkeypatch, tmp_path):
    spec = WORLDS["grid"]
    before = fingerprint(spec, 0)
    monkeypatch.setattr("lobsdice.environments.tasks.behaviour.WORLDS_FOLDER", tmp_path)
    (tmp_path / "grid.py").write_text("other code")
    assert fingerprint(spec, 0) != before


@pytest.mark.parametrize("where", ["pointmaze", "lobsdice/PointMaze-v0"])
def test_without_gymnasium_robotics_the_extra_is_named(where, monkeypatch):
    original = importlib.metadata.version

    def version(name: str) -> str:
        if name == "gymnasium-robotics":
            raise importlib.metadata.PackageNotFoundError(name)
        return original(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(LobsDICEError, match=r"needs gymnasium-robotics.*lobsdice\[robotics\]"):
        make(where)


def test_the_maze_prints_nothing_and_leaves_no_file(tmp_path):
    code = "from lobsdice import collect; collect('pointmaze', {'random': 1}, workers=1)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert result.stdout + result.stderr == b"" and not list(tmp_path.iterdir())
