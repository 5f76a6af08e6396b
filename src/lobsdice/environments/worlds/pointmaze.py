"""PointMaze of Gymnasium-Robotics: a ball in the medium maze, whose episode ends at the goal.

The observation is (x, y, vx, vy) and the goal's place; the action is a force. The ball starts in
the upper left corner, the goal lies in the upper right one, and both vary within half a cell. With
`tremble`, noise of that standard deviation adds to each action, and no observation shows it.
"""

from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float32

from lobsdice.environments.worlds.raster import BLUE, GREEN, GREY, Raster

with redirect_stderr(StringIO()):  # it prints news about other environments
    from gymnasium_robotics.envs.maze.maps import MEDIUM_MAZE
    from gymnasium_robotics.envs.maze.point_maze import PointMazeEnv

Cell = tuple[int, int]

SIZE = len(MEDIUM_MAZE)
WALLS = frozenset((i, j) for i in range(SIZE) for j in range(SIZE) if MEDIUM_MAZE[i][j] == 1)
#: The cells in row and column where episodes begin, and where the goal is.
STARTS: tuple[Cell, ...] = ((1, 1), (1, 2), (2, 1))
GOAL: Cell = (1, 6)
#: Bound of places and velocities. PointMaze limits velocities to 5 before it adds a step's change.
BOUND = 10.0

State = Float32[np.ndarray, "6"]
Action = Float32[np.ndarray, "2"]


class PointMaze(gymnasium.Env[State, Action]):
    """The maze as an environment. The reward is 1 at the goal and 0 elsewhere."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012

    def __init__(self, tremble: float = 0.0, render_mode: str | None = None):
        self.tremble, self.render_mode = tremble, render_mode
        maze: list[list[int | str]] = [list(row) for row in MEDIUM_MAZE]
        for cells, mark in ((STARTS, "r"), ((GOAL,), "g")):
            for i, j in cells:
                maze[i][j] = mark
        self._maze = PointMazeEnv(maze, continuing_task=False)
        Path(self._maze.tmp_xml_file_path).unlink(missing_ok=True)  # nobody else removes it
        self.observation_space = Box(-BOUND, BOUND, (6,), np.float32)
        self.action_space = Box(-1, 1, (2,), np.float32)
        self._observation = np.zeros(6, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        # One stream of random numbers: without a seed, the maze goes on with this one.
        observation, info = self._maze.reset(seed=int(self.np_random.integers(2**31)))
        return self._flat(observation), info

    def step(self, action: Any):
        if self.tremble:
            action = action + self.tremble * self.np_random.standard_normal(2)
        observation, reward, terminated, truncated, info = self._maze.step(action)
        return self._flat(observation), float(reward), terminated, truncated, info

    def _flat(self, observation: dict[str, np.ndarray]) -> State:
        parts = observation["observation"], observation["desired_goal"]
        self._observation = np.concatenate(parts).astype(np.float32)
        return self._observation

    def place(self, observation: np.ndarray) -> bool:
        """Draw an observed state from now on; the simulation itself stays where it is."""
        self._observation = np.asarray(observation, np.float32)
        return True

    def render(self) -> Any:
        half = SIZE / 2
        picture = Raster(-half, -half, half, half)
        for cell in WALLS:
            x, y = centre(cell)
            picture.rectangle(x - 0.5, y - 0.5, x + 0.5, y + 0.5, GREY)
        x, y, _, _, goal_x, goal_y = self._observation.tolist()
        picture.disk(goal_x, goal_y, 0.3, GREEN)
        picture.disk(x, y, 0.15, BLUE)
        return picture.pixels

    def close(self) -> None:
        self._maze.close()


def centre(cell: Cell) -> tuple[float, float]:
    """The place of the middle of a cell."""
    return cell[1] + 0.5 - SIZE / 2, SIZE / 2 - cell[0] - 0.5


def cell_of(x: float, y: float) -> Cell:
    """The cell of a place."""
    return int(SIZE / 2 - y), int(x + SIZE / 2)


@cache
def way_to(goal: Cell) -> dict[Cell, Cell]:
    """The next cell on a shortest way to a cell, from every cell."""
    found, border = {goal: goal}, [goal]
    while border:
        reached = []
        for i, j in border:
            for cell in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                if cell not in found and cell not in WALLS:
                    found[cell] = (i, j)
                    reached.append(cell)
        border = reached
    return found


#: Dead ends, one of which is the wrong goal: the lower corners.
WRONG: tuple[Cell, ...] = ((6, 6), (6, 1))
#: The demonstrator's force for a unit of distance and of velocity, and its noise.
PULL, BRAKE, SHAKE = 1.2, 0.3, 0.2


def expert(observation: State, random: np.random.Generator) -> Action:
    """Travel from cell to cell to the goal."""
    x, y, vx, vy, goal_x, goal_y = observation.tolist()
    to = _waypoint(x, y, GOAL) or (goal_x, goal_y)
    return _force(PULL * (to[0] - x) - BRAKE * vx, PULL * (to[1] - y) - BRAKE * vy, SHAKE, random)


def wrong(observation: State, random: np.random.Generator) -> Action:
    """Travel to a dead end and stay there. The goal's place within its cell says to which."""
    x, y, vx, vy, _, goal_y = observation.tolist()
    cell = WRONG[goal_y > centre(GOAL)[1]]
    to = _waypoint(x, y, cell) or centre(cell)
    return _force(PULL * (to[0] - x) - BRAKE * vx, PULL * (to[1] - y) - BRAKE * vy, SHAKE, random)


def hasty(observation: State, random: np.random.Generator) -> Action:
    """Push straight towards the goal, into the walls between."""
    x, y, _, _, goal_x, goal_y = observation.tolist()
    return _force(goal_x - x, goal_y - y, 2 * SHAKE, random)


def _waypoint(x: float, y: float, goal: Cell) -> tuple[float, float] | None:
    """The middle of the next cell on the way; None in the goal's cell."""
    here = cell_of(x, y)
    following = way_to(goal).get(here, here)
    return None if following == here else centre(following)


def _force(fx: float, fy: float, noise: float, random: np.random.Generator) -> Action:
    shaken = [fx + noise * random.standard_normal(), fy + noise * random.standard_normal()]
    return np.array([min(max(f, -1.0), 1.0) for f in shaken], np.float32)


CONTROLLERS: Mapping[str, Callable[[State, np.random.Generator], Action]] = {
    "expert": expert,
    "wrong": wrong,
    "hasty": hasty,
}
