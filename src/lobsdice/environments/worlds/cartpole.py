"""Gymnasium's CartPole: a pole on a cart must not fall, nor the cart leave its track.

With `push`, the pole is hit at one step in ten: its angular velocity changes by a random number of
that standard deviation, which no action explains. The reward is 1 a step.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from jaxtyping import Float32

from lobsdice.environments.worlds.raster import BLUE, GREY, RED, Raster

#: The share of steps with a push.
PUSHED = 0.1

State = Float32[np.ndarray, "4"]


class CartPole(CartPoleEnv):
    """CartPole with pushes, drawn without a graphics library."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, push: float = 0.0, render_mode: str | None = None):
        super().__init__(render_mode=render_mode)
        self.push = push

    def step(self, action: Any):
        assert self.state is not None, "call reset first"
        if self.push and self.np_random.random() < PUSHED:
            self.state[3] += self.push * self.np_random.standard_normal()
        return super().step(action)

    def place(self, observation: np.ndarray) -> bool:
        """Move to an observed state, to draw it."""
        self.state = np.asarray(observation, np.float64)
        return True

    def render(self) -> Any:
        assert self.state is not None, "call reset first"
        x, _, angle, _ = self.state.tolist()
        picture = Raster(-self.x_threshold, -0.5, self.x_threshold, 1.5)
        picture.rectangle(-self.x_threshold, -0.02, self.x_threshold, 0.02, GREY)
        picture.rectangle(x - 0.25, -0.12, x + 0.25, 0.12, BLUE)
        tip = (x + 2 * self.length * np.sin(angle), 2 * self.length * np.cos(angle))
        picture.segment((x, 0.1), tip, 0.08, RED)
        return picture.pixels


#: Share of random actions of every controller.
CARELESS = 0.05


def expert(observation: State, random: np.random.Generator) -> int:
    """Balance the pole and keep the cart near the middle."""
    x, speed, angle, turning = observation.tolist()
    return _pushing(0.05 * x + 0.15 * speed + angle + 0.4 * turning, random)


def leaning(observation: State, random: np.random.Generator) -> int:
    """Push to the side to which the pole leans: it swings wider until it falls."""
    return _pushing(observation.tolist()[2], random)


def drifting(observation: State, random: np.random.Generator) -> int:
    """Balance the pole with a lean to the right: the cart runs off its track."""
    _, _, angle, turning = observation.tolist()
    return _pushing(angle - 0.1 + 0.4 * turning, random)


def _pushing(right: float, random: np.random.Generator) -> int:
    if random.random() < CARELESS:
        return int(random.integers(2))
    return int(right > 0)


CONTROLLERS: Mapping[str, Callable[[State, np.random.Generator], int]] = {
    "expert": expert,
    "leaning": leaning,
    "drifting": drifting,
}
