"""`pointmaze` is the maze of Gymnasium-Robotics with a flat observation and an end at the goal."""

import numpy as np
import pytest
from gymnasium_robotics.envs.maze.point_maze import PointMazeEnv

from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.worlds.pointmaze import (
    GOAL,
    STARTS,
    WALLS,
    WRONG,
    PointMaze,
    cell_of,
    centre,
    way_to,
)

#: At this distance from the goal Gymnasium-Robotics counts it as reached.
REACHED = 0.45


def test_the_physics_are_those_of_gymnasium_robotics():
    env = PointMaze()
    env.reset(seed=0)
    theirs = env._maze
    assert isinstance(theirs, PointMazeEnv)
    before = theirs.point_env.data.qpos.copy(), theirs.point_env.data.qvel.copy()
    action = np.array([0.3, -0.8], np.float32)
    state, *_ = env.step(action)
    theirs.point_env.set_state(*before)
    wanted, *_ = theirs.step(action)
    parts = wanted["observation"], wanted["desired_goal"]
    np.testing.assert_array_equal(state, np.concatenate(parts).astype(np.float32))


def test_a_seed_determines_the_start_and_the_goal_in_their_cells():
    env = PointMaze()
    first, again = (np.stack([env.reset(seed=i)[0] for i in range(30)]) for _ in range(2))
    assert (first == again).all()
    assert {cell_of(*state[:2].tolist()) for state in first} == set(STARTS)
    assert {cell_of(*state[4:].tolist()) for state in first} == {GOAL}
    assert len(np.unique(first[:, :2], axis=0)) == len(np.unique(first[:, 4:], axis=0)) == 30


def test_the_episode_ends_when_the_ball_is_near_the_goal():
    expert = collect("pointmaze", {"expert": 3}, workers=1)["expert"]
    away = np.linalg.norm(expert.observations[:, :2] - expert.observations[:, 4:], axis=1)
    near = away <= REACHED + 1e-6
    assert expert.terminated.all() and near[expert.ends].all() and near.sum() == 3


@pytest.mark.parametrize("goal", [GOAL, *WRONG])
def test_the_way_leads_from_every_cell_to_the_goal_and_through_no_wall(goal):
    way = way_to(goal)
    assert len(way) == 64 - len(WALLS)
    for cell in way:
        assert cell_of(*centre(cell)) == cell
        for _ in range(len(way)):
            (i, j), cell = cell, way[cell]
            assert cell not in WALLS and abs(cell[0] - i) + abs(cell[1] - j) <= 1
        assert cell == goal
