import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from lobsdice.data.spaces import Box, Discrete
from lobsdice.environments import gym
from lobsdice.environments.evaluate import try_step
from lobsdice.environments.gym import make, registered, rollout
from lobsdice.environments.tasks.behaviour import behaviour_of
from lobsdice.environments.tasks.collect import episode_seed
from lobsdice.environments.tasks.table import TASKS
from lobsdice.errors import LobsDICEError


def test_a_rollout_uses_its_seed_up_nowhere():
    spec = TASKS["hopper"]
    env, act = make(spec), behaviour_of(spec, "random")
    seed = episode_seed(spec, 0, "random", 0)
    first, second = rollout(env, act, seed), rollout(env, act, seed)
    assert (first.observations == second.observations).all()


def test_without_mujoco_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(LobsDICEError, match=r"needs mujoco.*lobsdice\[mujoco\]"):
        make(TASKS["hopper"])


class Own(gymnasium.Env):
    """An environment of a user's, without an argument `render_mode`; it ends after 5 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))
    steps = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(3), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(3), 1, self.steps == 5, False, {}


class Endless(Own):
    def step(self, action):
        return np.zeros(3), 1, False, False, {}


class NotMade(Own):
    def __init__(self):
        raise ValueError("no licence")


class NotReset(Own):
    def reset(self, *, seed=None, options=None):  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"position": 1.0}, {}


class Failing(Own):
    def step(self, action):
        raise RuntimeError("the simulator\nhas stopped")


class Old(Own):
    def step(self, action):  # pyright: ignore[reportIncompatibleMethodOverride]
        return np.zeros(3), 1, False, {}


@pytest.fixture
def register(monkeypatch):
    """Register an environment's class, for one test."""

    def register(kind, **options) -> str:
        spec = EnvSpec("Own-v0", entry_point=kind, **options)
        monkeypatch.setitem(gymnasium.registry, "Own-v0", spec)
        return "Own-v0"

    return register


def run(name: str):
    return rollout(make(name), lambda *_: np.zeros(2, np.float32), np.random.SeedSequence(0))


def test_an_environment_need_not_be_drawable(register):
    assert run(register(Own)).rewards.sum() == 5


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NotMade, "cannot be made: ValueError: no licence"),
        (NotReset, "fails to reset: TypeError"),
        (Failing, "fails in a step: RuntimeError: the simulator\n"),
        (Old, "fails in a step: ValueError: not enough values"),
    ],
)
def test_what_fails_in_an_environment_is_a_sentence_with_a_traceback_in_its_notes(
    register, kind, message
):
    with pytest.raises(LobsDICEError, match=f"the environment Own-v0 {message}") as caught:
        run(register(kind))
    assert caught.value.__notes__[0].startswith("Traceback")


def test_an_episode_that_does_not_end_is_an_error_unless_its_environment_has_a_limit(
    register, monkeypatch
):
    monkeypatch.setattr(gym, "LONGEST", 50)
    with pytest.raises(LobsDICEError, match="Own-v0 has not ended after 50 steps; register"):
        run(register(Endless))
    assert len(run(register(Endless, max_episode_steps=60)).rewards) == 60


def test_a_module_that_is_not_there_is_a_sentence():
    with pytest.raises(LobsDICEError, match=r"'nomod:E-v0': No module named 'nomod'; \$PYTHONPATH"):
        make("nomod:E-v0")


def test_a_file_may_name_registered_environments_only():
    assert registered("CartPole-v1") == "CartPole-v1"
    with pytest.raises(LobsDICEError, match="only if you name it yourself: --env this:E-v0"):
        registered("this:E-v0")
    with pytest.raises(LobsDICEError, match="names no environment, but 3; use --env"):
        registered(3)


def test_a_rehearsal_finds_misfits(register):
    try_step("CartPole-v1", 4, Discrete(2))
    box = Box.of([-1, -1], [1, 1])
    try_step(register(Own, max_episode_steps=9), 3, box)
    with pytest.raises(LobsDICEError, match=r"have 4 numbers, but .*Own-v0 have the shape \(3,\)"):
        try_step("Own-v0", 4, box)
    with pytest.raises(LobsDICEError, match="actions are not those of Own-v0"):
        try_step("Own-v0", 3, Discrete(2))
    with pytest.raises(LobsDICEError, match="fails in a step"):
        try_step(register(Failing, max_episode_steps=9), 3, box)
