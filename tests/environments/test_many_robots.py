"""`benchmarks/many_robots.py` has the observations, rewards and ends of Gymnasium's tasks."""

from typing import Any

import numpy as np
import pytest
from many_robots import ROBOTS, Robots

from lobsdice.environments.gym import make


@pytest.mark.parametrize("task", ROBOTS)
def test_a_step_is_that_of_gymnasium(task: str) -> None:
    env: Any = make(task)
    robots, random = Robots(task, 2, seed=0, threads=1), np.random.default_rng(0)
    first, ends = np.array([True, False]), 0
    observation, _ = env.reset(seed=1)
    for _ in range(150):
        data = env.unwrapped.data
        robots.put(first, data.qpos[None].copy(), data.qvel[None].copy())
        np.testing.assert_array_equal(robots.observe()[0], observation)
        actions = random.uniform(-1, 1, (2, *env.action_space.shape)).astype(np.float32)
        x = data.qpos[0]
        observation, _, fell, _, info = env.step(actions[0])
        speed = (data.qpos[0] - x) / env.unwrapped.dt  # Ant's own is of another moment
        parts = [info.get(f"reward_{part}", 0) for part in ("ctrl", "survive")]
        moment = robots.step(actions)
        np.testing.assert_allclose(moment.after[0], observation, atol=1e-8)
        np.testing.assert_allclose(moment.reward[0], speed + sum(parts), atol=1e-5)
        assert moment.fell[0] == fell
        ends += fell
        if fell:
            observation, _ = env.reset()
    assert ends or task in ("halfcheetah", "ant")
    env.close()


def test_copies_start_anew_after_an_end() -> None:
    robots = Robots("hopper", 3, seed=0, threads=2)
    starts = robots.observe()
    for _ in range(200):
        moment = robots.step(np.ones((3, 3), np.float32))
        over = moment.fell | moment.late
        assert (robots.age[over] == 0).all()
        assert (np.abs(robots.observe()[over] - starts[over]) <= 0.01).all()
        np.testing.assert_array_equal(robots.observe()[~over], moment.after[~over])
        if over.any():
            return
    raise AssertionError("no hopper fell")
