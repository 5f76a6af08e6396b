"""Many copies of a MuJoCo task that step together in native threads, for `train_policies.py`.

Observations, rewards and ends are computed for all copies at once. They are those of Gymnasium's
environments but for two parts of Ant's reward. The contact cost is left out, because the contact
forces are not known here: it was below 1 in each episode of an expert. The speed is that of the
position; Gymnasium's is that of the torso as the integrator last saw it, which is a little off.
"""

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from mujoco.rollout import Rollout

from lobsdice.environments.gym import make
from lobsdice.environments.tasks.table import TASKS

#: The tasks with MuJoCo's physics and nothing added to it.
ROBOTS = ("hopper", "walker2d", "halfcheetah", "ant")


class Moment(NamedTuple):
    """What follows from one step of all copies."""

    after: np.ndarray
    """Observations after the step, before any copy starts anew."""
    reward: np.ndarray
    fell: np.ndarray
    """True where the episode terminated."""
    late: np.ndarray
    """True where the episode reached its greatest length."""


@dataclass(frozen=True)
class Rules:
    """What a task's observations, rewards and ends are made of."""

    hidden: int
    """Leading positions that are not observed."""
    clipped: bool
    """True if observed velocities lie in [-10, 10]."""
    alive: float
    """Reward of each step in health."""
    normal: bool
    """True if the speeds of the start are normal rather than uniform."""


RULES = {
    "hopper": Rules(1, True, 1.0, False),
    "walker2d": Rules(1, True, 1.0, False),
    "halfcheetah": Rules(1, False, 0.0, True),
    "ant": Rules(2, False, 1.0, True),
}


class Robots:
    """Copies of a task. A copy whose episode has ended starts a new one by itself."""

    def __init__(
        self, task: str, copies: int, seed: int, *, threads: int, start_noise: float = 1.0
    ) -> None:
        env: Any = make(task)
        self.env = env.unwrapped
        self.task, self.rules, self.copies = task, RULES[task], copies
        self.max_steps = TASKS[task].max_steps
        self.model = self.env.model
        self.data = [copy(self.env.data) for _ in range(threads)]
        self.physics = Rollout(nthread=threads)
        self.random = np.random.default_rng(seed)
        self.start_noise = start_noise * self.env._reset_noise_scale
        self.states = np.zeros((copies, 1 + self.model.nq + self.model.nv))
        self.age = np.zeros(copies, int)
        self.restart(np.ones(copies, bool))

    def restart(self, which: np.ndarray) -> None:
        """Start new episodes in these copies, from the task's own distribution of starts."""
        n, model, env = int(which.sum()), self.model, self.env
        uniform, normal = partial(self.random.uniform, -1, 1), self.random.standard_normal
        draw = normal if self.rules.normal else uniform
        positions = env.init_qpos + self.start_noise * uniform(size=(n, model.nq))
        speeds = env.init_qvel + self.start_noise * draw(size=(n, model.nv))
        self.put(which, positions, speeds)

    def put(self, which: np.ndarray, positions: np.ndarray, speeds: np.ndarray) -> None:
        """Put these copies into given states, at the start of an episode."""
        times = np.zeros((len(positions), 1))
        self.states[which] = np.concatenate([times, positions, speeds], axis=1)
        self.age[which] = 0

    def observe(self) -> np.ndarray:
        """The observations of all copies."""
        positions, speeds = self._split()
        seen = np.clip(speeds, -10, 10) if self.rules.clipped else speeds
        return np.concatenate([positions[:, self.rules.hidden :], seen], axis=1)

    def step(self, actions: np.ndarray) -> Moment:
        """Take a step in all copies, and start new episodes where one has ended."""
        control = np.repeat(actions[:, None], self.env.frame_skip, axis=1).astype(float)
        path: Any = self.physics.rollout(self.model, self.data, self.states, control)[0]
        speed = (path[:, -1, 1] - self.states[:, 1]) / self.env.dt
        self.states, self.age = path[:, -1].copy(), self.age + 1
        healthy = self._healthy()
        cost = self.env._ctrl_cost_weight * (actions.astype(float) ** 2).sum(axis=1)
        reward = speed - cost + self.rules.alive * healthy
        moment = Moment(self.observe(), reward, ~healthy, self.age >= self.max_steps)
        over = moment.fell | moment.late
        if over.any():
            self.restart(over)
        return moment

    def _healthy(self) -> np.ndarray:
        positions, speeds = self._split()
        if self.task == "halfcheetah":
            return np.ones(self.copies, bool)
        if self.task == "ant":
            low, high = self.env._healthy_z_range
            finite = np.isfinite(self.states).all(axis=1)
            return finite & (low <= positions[:, 2]) & (positions[:, 2] <= high)
        healthy = _within(positions[:, 1], self.env._healthy_z_range)
        healthy &= _within(positions[:, 2], self.env._healthy_angle_range)
        if self.task == "hopper":
            rest = np.concatenate([positions[:, 2:], speeds], axis=1)
            healthy &= _within(rest, self.env._healthy_state_range).all(axis=1)
        return healthy

    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        return self.states[:, 1 : 1 + self.model.nq], self.states[:, 1 + self.model.nq :]


def _within(x: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    low, high = bounds
    return (low < x) & (x < high)
