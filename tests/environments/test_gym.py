import sys

import pytest

from lobsdice.environments.gym import make, rollout
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
