"""The point of `reach` moves by Newton's law, and its episodes end where they should."""

import numpy as np
import pytest

from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.worlds.reach import GOAL, PILLAR_RADIUS, SLOW, STEP, Reach

REST = np.zeros(2, np.float32)


def world(*state: float, gust: float = 0.0) -> Reach:
    env = Reach(gust)
    env.reset(seed=0)
    env._state = state  # type: ignore[assignment]
    return env


def test_without_a_force_the_velocity_is_conserved():
    env = world(-0.5, -0.5, 0.1, 0.2)
    *_, state = (env.step(REST)[0] for _ in range(20))
    np.testing.assert_allclose(state, [-0.5 + 2 * 0.1, -0.5 + 2 * 0.2, 0.1, 0.2], rtol=1e-6)


def test_a_constant_force_gives_a_constant_acceleration_and_is_limited():
    env, n = world(-0.9, -0.9, 0.0, 0.0), 10
    *_, state = (env.step(np.array([0.5, 3.0], np.float32))[0] for _ in range(n))
    way = STEP**2 * n * (n + 1) / 2
    wanted = [-0.9 + 0.5 * way, -0.9 + way, 0.5 * n * STEP, n * STEP]
    np.testing.assert_allclose(state, wanted, rtol=1e-5)


def test_the_world_is_its_own_mirror_image():
    left, right = world(-0.3, -0.6, 0.1, 0.2), world(0.3, -0.6, -0.1, 0.2)
    random, mirror = np.random.default_rng(0), np.array([-1, 1, -1, 1], np.float32)
    for _ in range(20):
        action = random.uniform(-1, 1, 2).astype(np.float32)
        one, two = left.step(action), right.step(action * mirror[:2])
        assert (one[0] == mirror * two[0]).all() and one[1:] == two[1:]


@pytest.mark.parametrize(
    ("state", "ended", "success"),
    [
        ((*GOAL, 0.0, 0.0), True, True),
        ((*GOAL, 0.0, 2 * SLOW), False, False),
        ((0.5, 0.5, 0.0, 0.0), False, False),
        ((0.0, -PILLAR_RADIUS + 0.01, 0.0, 0.0), True, False),
        ((0.0, -PILLAR_RADIUS - 0.01, 0.0, 0.0), False, False),
        ((0.95, 0.0, 1.0, 0.0), True, False),
        ((0.0, -0.95, 0.0, -1.0), True, False),
    ],
)
def test_rest_in_the_goal_is_success_and_a_crash_is_failure(state, ended, success):
    _, reward, terminated, truncated, info = world(*state).step(REST)
    assert (terminated, truncated, info["success"]) == (ended, False, success)
    assert reward == success


def test_gusts_have_no_direction_and_the_given_size():
    env, changes = world(0, 0, 0, 0, gust=0.7), []
    for _ in range(4000):
        env._state = (0.5, 0.5, 0.1, 0.1)
        state, *_ = env.step(REST)
        changes.append((state[2:] - np.float32(0.1)) / STEP)
    assert np.abs(np.mean(changes, axis=0)).max() < 5 * 0.7 / 4000**0.5
    np.testing.assert_allclose(np.std(changes, axis=0), 0.7, rtol=0.06)


@pytest.mark.parametrize("name", ["reach", "reach-noisy"])
def test_the_demonstrator_passes_the_pillar_on_both_sides_and_from_one_start_either_way(name):
    expert = collect(name, {"expert": 60}, seed=0, workers=1)["expert"]
    sides, starts = [], []
    for start, length in zip(expert.starts, expert.lengths, strict=True):
        states = expert.observations[start : start + length + 1]
        sides.append(states[np.abs(states[:, 1]).argmin(), 0] > 0)
        starts.append(states[0, 0])
    assert 0.25 < np.mean(sides) < 0.75
    crossed = np.array(sides) != (np.array(starts) > 0)
    assert crossed.any() and np.abs(np.array(starts)[crossed]).max() < 0.3
