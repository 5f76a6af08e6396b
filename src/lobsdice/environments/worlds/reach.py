"""A point with inertia that must pass a pillar and come to rest in a goal.

The observation is (x, y, vx, vy), the action an acceleration in [-1, 1] in both directions. Nothing
slows the point down but its own action. The episode ends with success when the point is slow inside
the goal, and with failure when it hits the pillar or the border. With `gust`, a random acceleration
of that standard deviation adds to each action, and no observation shows it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float32

from lobsdice.environments.worlds.raster import BLUE, GREEN, GREY, Raster

#: Seconds of a step.
STEP = 0.1
#: The border is the square from -BORDER to BORDER.
BORDER = 1.0
PILLAR_RADIUS = 0.25
"""The pillar stands at (0, 0)."""
GOAL, GOAL_RADIUS = (0.0, 0.7), 0.15
#: The largest speed that counts as rest.
SLOW = 0.15
#: The first place is drawn uniformly between these, at rest.
START_LOW, START_HIGH = (-0.6, -0.9), (0.6, -0.7)
#: Bounds of observations. The last step before a crash may leave the border.
PLACE_BOUND, SPEED_BOUND = 2.0, 10.0

State = Float32[np.ndarray, "4"]
Action = Float32[np.ndarray, "2"]


class Reach(gymnasium.Env[State, Action]):
    """The world as an environment. The reward is 1 at success and 0 otherwise."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, gust: float = 0.0, render_mode: str | None = None):
        self.gust, self.render_mode = gust, render_mode
        bound = np.array([PLACE_BOUND, PLACE_BOUND, SPEED_BOUND, SPEED_BOUND], np.float32)
        self.observation_space = Box(-bound, bound)
        self.action_space = Box(-1, 1, (2,), np.float32)
        self._state = (0.0, -0.8, 0.0, 0.0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        x, y = self.np_random.uniform(START_LOW, START_HIGH).tolist()
        self._state = (x, y, 0.0, 0.0)
        return np.array(self._state, np.float32), {"success": False}

    def step(self, action: Any):
        x, y, vx, vy = self._state
        ax, ay = (min(max(a, -1.0), 1.0) for a in action.tolist())
        if self.gust:
            ax += self.gust * self.np_random.standard_normal()
            ay += self.gust * self.np_random.standard_normal()
        vx, vy = vx + STEP * ax, vy + STEP * ay
        x, y = x + STEP * vx, y + STEP * vy
        self._state = (x, y, vx, vy)
        crash = max(abs(x), abs(y)) > BORDER or math.hypot(x, y) < PILLAR_RADIUS
        inside = math.hypot(x - GOAL[0], y - GOAL[1]) < GOAL_RADIUS
        success = inside and math.hypot(vx, vy) < SLOW
        observation = np.array(self._state, np.float32)
        return observation, float(success), crash or success, False, {"success": success}

    def place(self, observation: np.ndarray) -> bool:
        """Move to an observed state, to draw it."""
        x, y, vx, vy = map(float, observation)
        self._state = (x, y, vx, vy)
        return True

    def render(self) -> Any:
        picture = Raster(-BORDER, -BORDER, BORDER, BORDER)
        picture.disk(*GOAL, GOAL_RADIUS, GREEN)
        picture.disk(0.0, 0.0, PILLAR_RADIUS, GREY)
        x, y, vx, vy = self._state
        picture.disk(x, y, 0.04, BLUE)
        picture.segment((x, y), (x + 0.3 * vx + 1e-6, y + 0.3 * vy), 0.02, BLUE)
        return picture.pixels


#: The demonstrator's speed on the way, and the standard deviation of its actions' noise.
CRUISE, SHAKE = 0.5, 0.15
#: The hasty controller's speed, and the place behind the goal and the border that it aims at.
RUSH, BEYOND = 1.2, (0.0, 2.0)
#: It passes the pillar at this distance.
BESIDE = 0.5
#: Below this y it may still change its mind about the side, if it is this near to the middle.
UNDECIDED_Y, UNDECIDED_X = -0.5, 0.1
#: Where the wrong goal is.
WRONG = (0.7, 0.7)


def expert(observation: State, random: np.random.Generator) -> Action:
    """Pass the pillar on the nearer side, slow down and stop in the goal."""
    return _travel(GOAL, observation, random)


def wrong(observation: State, random: np.random.Generator) -> Action:
    """Travel like the demonstrator, but stop in a wrong place."""
    return _travel(WRONG, observation, random)


def hasty(observation: State, random: np.random.Generator) -> Action:
    """Rush past the pillar and through the goal, and crash into the border behind it."""
    return _travel(BEYOND, observation, random, RUSH)


def _travel(
    goal: tuple[float, float], state: State, random: np.random.Generator, fastest: float = CRUISE
) -> Action:
    """The acceleration towards the velocity that leads past the pillar and to rest in a goal."""
    x, y, vx, vy = state.tolist()
    if y < 0.1:
        doubt = UNDECIDED_X * random.standard_normal() if y < UNDECIDED_Y else 0.0
        dx, dy = math.copysign(BESIDE, x + doubt) - x, 0.2 - y
        speed = fastest
    else:
        dx, dy = goal[0] - x, goal[1] - y
        speed = min(fastest, 1.2 * math.hypot(dx, dy))
    scale = speed / (math.hypot(dx, dy) + 1e-9)
    return _pushed(4 * (scale * dx - vx), 4 * (scale * dy - vy), random)


def _pushed(ax: float, ay: float, random: np.random.Generator) -> Action:
    """An action with the noise of every controller."""
    shaken = [ax + SHAKE * random.standard_normal(), ay + SHAKE * random.standard_normal()]
    return np.array([min(max(a, -1.0), 1.0) for a in shaken], np.float32)


CONTROLLERS: Mapping[str, Callable[[State, np.random.Generator], Action]] = {
    "expert": expert,
    "wrong": wrong,
    "hasty": hasty,
}
