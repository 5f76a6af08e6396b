"""Gymnasium's MuJoCo environments with noise in their motors, which no recording shows.

Noise of the standard deviation `tremble` adds to each action inside the environment. So the state
depends on more than the recorded action, and the same action leads to different states.
"""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float


class Trembling(gymnasium.ActionWrapper[Any, Any, Any]):
    """An environment whose motors tremble. A reset with a seed also fixes the noise."""

    def __init__(self, env: gymnasium.Env[Any, Any], tremble: float):
        super().__init__(env)
        self.tremble = tremble
        space: Any = env.action_space
        self.low, self.high = space.low, space.high

    def action(self, action: Float[np.ndarray, " action"]) -> Float[np.ndarray, " action"]:
        noise = self.tremble * self.np_random.standard_normal(len(action))
        return np.clip(action + noise, self.low, self.high)


def make_trembling(*, calm: str, tremble: float, **options: Any) -> Trembling:
    """The environment with the Gymnasium id `calm`, with noise; it has no limit of steps."""
    return Trembling(gymnasium.make(calm, disable_env_checker=True, **options).unwrapped, tremble)
