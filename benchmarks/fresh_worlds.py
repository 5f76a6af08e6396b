"""Eleven worlds for benchmarks/selection.py, made to test what was chosen on the built-in ones.

Five are Gymnasium's and six are small simulators. Each has a scripted demonstrator, and bad
controllers that the logs hold too. Where an episode can succeed, its return is 1 if it does.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box as GymBox
from gymnasium.wrappers import TimeLimit

from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.environments.gym import Act, rollout
from lobsdice.environments.tasks.behaviour import Uniform
from lobsdice.environments.worlds.trembling import Trembling

#: Demonstrations, logged episodes of the demonstrator, and all logged episodes.
DEMONSTRATIONS, GOOD, LOGGED = 5, 30, 300
#: Seconds of a step of the simulators.
STEP = 0.1
#: The standard deviation of the noise in each controller's actions.
SHAKE = 0.15

State = np.ndarray


class Success(gymnasium.Wrapper):
    """An environment whose reward is 1 where an episode ends by itself, which is the goal."""

    def step(self, action: Any):
        observation, _, ended, cut, facts = self.env.step(action)
        return observation, float(ended), ended, cut, facts


class Simulator(gymnasium.Env):
    """A small simulator: a subclass has `begin` and `move`, which returns the reward and an end."""

    state: np.ndarray
    size: int
    actions: int

    def __init__(self):
        self.observation_space = GymBox(-np.inf, np.inf, (self.size,), np.float32)
        self.action_space = GymBox(-1, 1, (self.actions,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.state = self.begin(self.np_random)
        return self.seen(), {}

    def step(self, action: Any):
        reward, ended = self.move(np.clip(action, -1, 1), self.np_random)
        return self.seen(), reward, ended, False, {}

    def seen(self) -> np.ndarray:
        return self.state.astype(np.float32)

    def begin(self, random: np.random.Generator) -> np.ndarray: ...
    def move(self, action: np.ndarray, random: np.random.Generator) -> tuple[float, bool]: ...


class Ferry(Simulator):
    """A ferry with thrust and rudder must meet the quay y = 0 slowly, straight and at its place.

    The state is x, y, heading, speed and turning. Currents push it. It sees the heading's cosine
    and sine.
    """

    size, actions = 6, 2

    def begin(self, random):
        return np.array([random.uniform(-1, 1), -3.0, random.uniform(-0.5, 0.5), 0.3, 0.0])

    def seen(self):
        x, y, heading, speed, turning = self.state
        return np.array([x, y, math.cos(heading), math.sin(heading), speed, turning], np.float32)

    def move(self, action, random):
        x, y, heading, speed, turning = self.state
        dx, dy = 0.02 * random.standard_normal(2)
        speed += 2 * STEP * (action[0] - 0.5 * speed)
        turning += 2 * STEP * (2 * action[1] - 2 * turning)
        heading += 2 * STEP * turning
        x += 2 * STEP * speed * math.sin(heading) + dx
        y += 2 * STEP * speed * math.cos(heading) + dy
        self.state = np.array([x, y, heading, speed, turning])
        docked = y >= 0 and abs(x) < 0.2 and speed < 0.35 and abs(heading) < 0.4
        return float(docked), bool(y >= 0 or abs(x) > 2 or y < -4)


def _ferry(place: float, fastest: float, slows: bool) -> Act:
    def act(s: State, random: np.random.Generator) -> np.ndarray:
        x, y, _, sine, speed, turning = s.tolist()
        heading = math.atan2(place - x, 0.6 - y)
        wanted = min(fastest, 0.2 + 0.5 * abs(y)) if slows else fastest
        push = [0.5 * wanted + 2 * (wanted - speed), 2 * (heading - math.asin(sine)) - turning]
        return _shaken(push, random)

    return act


class Track(Simulator):
    """A car must drive once around a ring and stay on it; it slides, and more if it is fast.

    The state is x, y, heading and speed. It starts behind the gate, at which the lap ends.
    """

    size, actions = 5, 2

    def begin(self, random):
        angle, radius = random.uniform(0.1, 0.3), random.uniform(0.9, 1.1)
        x, y = radius * math.cos(angle), radius * math.sin(angle)
        return np.array([x, y, angle + math.pi / 2, 0.5])

    def seen(self):
        x, y, heading, speed = self.state
        return np.array([x, y, math.cos(heading), math.sin(heading), speed], np.float32)

    def move(self, action, random):
        x, y, heading, speed = self.state
        speed = max(speed + STEP * (action[0] - 0.5 * speed), 0.0)
        grip = 1 / (1 + speed**4)
        heading += STEP * (2.5 * speed * grip * action[1] + 0.2 * random.standard_normal())
        x, y = x + STEP * speed * math.cos(heading), y + STEP * speed * math.sin(heading)
        self.state = np.array([x, y, heading, speed])
        off = abs(math.hypot(x, y) - 1) > 0.2
        home = not off and -0.15 < math.atan2(y, x) < 0
        return float(home), bool(off or home)


def _driver(cruise: float, radius: float) -> Act:
    def act(s: State, random: np.random.Generator) -> np.ndarray:
        x, y, cosine, sine, speed = s.tolist()
        along = math.atan2(y, x) + math.pi / 2 + 1.5 * (math.hypot(x, y) - radius)
        turn = math.remainder(along - math.atan2(sine, cosine), 2 * math.pi)
        steer = (1 + speed**4) * (0.4 + 1.5 * turn)
        return _shaken([0.5 * cruise + 2 * (cruise - speed), steer], random)

    return act


class Tank(Simulator):
    """A pump fills one tank, which fills another, whose level must stay at 0.6; overflow ends it.

    It sees both levels. The outlets clog a little and get free again.
    """

    size, actions = 2, 1

    def begin(self, random):
        return random.uniform(0.1, 0.9, 2)

    def move(self, action, random):
        one, two = self.state
        free = np.clip(1 + 0.2 * random.standard_normal(2), 0.5, 1.5)
        flow, out = (0.8 * f * math.sqrt(max(x, 0)) for f, x in zip(free, (one, two), strict=True))
        one = max(one + STEP * (0.5 * (1 + float(action[0])) - flow), 0.0)
        two = max(two + STEP * (flow - out), 0.0)
        self.state = np.array([one, two])
        return math.exp(-abs(two - 0.6) / 0.1), bool(max(one, two) > 1.2)


def _pump(level: float, gain: float) -> Act:
    def act(s: State, random: np.random.Generator) -> np.ndarray:
        one, two = s.tolist()
        wanted = level + gain * (level - two)
        return _shaken([gain * 2 * (wanted - one) + 1.6 * math.sqrt(level) - 1], random)

    return act


class Hover(Simulator):
    """A drone in gusts must stay in the middle of a room; it falls without thrust.

    It sees its place and speed. A wall ends the episode.
    """

    size, actions = 4, 2

    def begin(self, random):
        return np.concatenate([random.uniform(-0.5, 0.5, 2), np.zeros(2)])

    def move(self, action, random):
        place, speed = self.state[:2], self.state[2:]
        push = 2 * action - [0.0, 1.0] + 0.5 * random.standard_normal(2)
        speed = speed + STEP * (push - 0.2 * speed)
        place = place + STEP * speed
        self.state = np.concatenate([place, speed])
        return math.exp(-4 * float(place @ place)), bool(np.abs(place).max() > 1)


def _pilot(gain: float, place: float) -> Act:
    def act(s: State, random: np.random.Generator) -> np.ndarray:
        x, y, vx, vy = s.tolist()
        return _shaken([gain * (place - x) - vx, gain * (place - y) - vy + 0.5], random)

    return act


class Turret(Simulator):
    """A turret must point at a target, which is another one in each episode.

    It sees both angles, their speeds, and the target's angles. The episode does not end.
    """

    size, actions = 6, 2

    def begin(self, random):
        return np.concatenate([np.zeros(4), random.uniform(-1, 1, 2)])

    def move(self, action, random):
        angles, speeds, target = np.split(self.state, 3)
        speeds = speeds + STEP * (3 * action - speeds + 0.2 * random.standard_normal(2))
        angles = angles + STEP * speeds
        self.state = np.concatenate([angles, speeds, target])
        return math.exp(-5 * float(np.abs(angles - target).mean())), False


def _gunner(sign: float) -> Act:
    def act(s: State, random: np.random.Generator) -> np.ndarray:
        angles, speeds, target = np.split(s, 3)
        return _shaken(1.5 * (sign * target - angles) - 0.5 * speeds, random)

    return act


class Crane(Simulator):
    """A crane must bring a hanging load to rest at 1.5, without much swinging.

    It sees the trolley's place and speed, the rope's angle and its speed. Too large an angle ends
    the episode, and so does the end of the rails.
    """

    size, actions = 4, 1

    def begin(self, random):
        return np.array([random.uniform(-0.3, 0.3), 0.0, random.uniform(-0.1, 0.1), 0.0])

    def move(self, action, random):
        x, v, angle, turning = self.state
        push = 1.5 * float(action[0]) + 0.2 * random.standard_normal()
        turning += STEP * (-4 * math.sin(angle) - push * math.cos(angle) - 0.1 * turning)
        v += STEP * push
        x, angle = x + STEP * v, angle + STEP * turning
        self.state = np.array([x, v, angle, turning])
        rest = abs(x - 1.5) < 0.1 and abs(v) < 0.15 and abs(angle) < 0.1 and abs(turning) < 0.2
        return float(rest), bool(rest or abs(angle) > 0.7 or abs(x) > 2.5)


def _crane(place: float, gain: float, damps: float) -> Act:
    def act(s: State, random: np.random.Generator) -> np.ndarray:
        x, v, angle, turning = s.tolist()
        away = min(max(place - x, -0.7), 0.7)
        return _shaken([gain * away - 1.2 * v + damps * angle + 0.3 * turning], random)

    return act


def _shaken(action: Any, random: np.random.Generator, bound: float = 1.0) -> np.ndarray:
    noise = SHAKE * bound * random.standard_normal(len(action))
    return np.clip(np.array(action) + noise, -bound, bound).astype(np.float32)


def _swinging(catches: bool) -> Act:
    """Pump energy into Gymnasium's pendulum, and hold it upright if it `catches` it."""

    def act(s: State, random: np.random.Generator) -> np.ndarray:
        cosine, sine, speed = s.tolist()
        if catches and cosine > 0.8:
            return _shaken([-12 * sine - 3 * speed], random, 2.0)
        lacking = 10 * (1 - cosine) - speed**2 / 2 * (2 / 3)
        return _shaken([math.copysign(2.0, lacking * (speed or 1.0))], random, 2.0)

    return act


def _rocking(sign: float) -> Act:
    """Drive the car of the valley in its own direction, or always to one side."""

    def act(s: State, random: np.random.Generator) -> np.ndarray:
        return _shaken([sign if sign else math.copysign(1.0, float(s[1]) or 1.0)], random)

    return act


def _twisting(sign: float) -> Act:
    """Turn Gymnasium's acrobot with or against the movement of its second link."""

    def act(s: State, random: np.random.Generator) -> int:
        if random.random() < 0.1:
            return int(random.integers(3))
        return 1 + int(math.copysign(1, sign * float(s[5])))

    return act


@cache
def _balance_gain() -> np.ndarray:
    """The gain of the linear regulator of the double pendulum at rest, by finite differences."""
    from scipy.linalg import solve_discrete_are

    env: Any = gymnasium.make("InvertedDoublePendulum-v5").unwrapped
    env.reset(seed=0)

    def after(x: np.ndarray) -> np.ndarray:
        env.set_state(x[:3], x[3:6])
        env.do_simulation(x[6:], env.frame_skip)
        return np.concatenate([env.data.qpos, env.data.qvel])

    tiny = 1e-5
    found = np.stack([(after(e) - after(-e)) / (2 * tiny) for e in tiny * np.eye(7)], axis=1)
    a, b = found[:, :6], found[:, 6:]
    p = solve_discrete_are(a, b, np.diag([1.0, 10, 10, 0.1, 0.1, 0.1]), np.eye(1))
    return np.linalg.solve(np.eye(1) + b.T @ p @ b, b.T @ p @ a)[0]


def _balancing(share: float, place: float = 0.0) -> Act:
    """Balance the double pendulum with a share of the right gain, at some place of the cart."""

    def act(s: State, random: np.random.Generator) -> np.ndarray:
        angles = np.arctan2(s[1:3], s[3:5])
        state = np.concatenate([[s[0] - place], angles, s[5:8]])
        return _shaken([-share * float(_balance_gain() @ state)], random)

    return act


def _pointing(sign: float, gain: float = 60.0) -> Act:
    """Move the tip of Gymnasium's reacher to its target, or away from it."""

    def act(s: State, random: np.random.Generator) -> np.ndarray:
        (c0, c1, s0, s1), speeds, away = s[:4].tolist(), s[6:8], s[8:10]
        c, t = c0 * c1 - s0 * s1, s0 * c1 + c0 * s1
        jacobian = np.array([[-0.1 * s0 - 0.11 * t, -0.11 * t], [0.1 * c0 + 0.11 * c, 0.11 * c]])
        return _shaken(-sign * gain * jacobian.T @ away - 0.3 * speeds, random)

    return act


ONE, BOTH = Box((-1.0,), (1.0,)), Box((-1.0, -1.0), (1.0, 1.0))


@dataclass(frozen=True)
class Fresh:
    """A world, its controllers, and the limit of its episodes."""

    create: Callable[[], Any]
    expert: Act
    bad: Mapping[str, Act]
    steps: int
    succeeds: bool
    """True if episodes succeed or fail, with a return of 1 or 0."""
    space: ActionSpace = ONE

    def make(self) -> gymnasium.Env:
        """The environment."""
        return TimeLimit(self.create(), self.steps)

    def controllers(self) -> dict[str, Act]:
        """The sources of episodes, the demonstrator first."""
        return {"expert": self.expert, **self.bad, "random": Uniform(self.space)}


def _gym(name: str, tremble: float = 0.0, **attributes: Any) -> Any:
    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    for key, value in attributes.items():
        setattr(env, key, value)
    return Trembling(env, tremble) if tremble else env


FIRST: Mapping[str, Fresh] = {
    "pendulum": Fresh(
        lambda: _gym("Pendulum-v1"),
        _swinging(True),
        {"spinning": _swinging(False)},
        200,
        succeeds=False,
        space=Box((-2.0,), (2.0,)),
    ),
    "valley": Fresh(
        lambda: Success(_gym("MountainCarContinuous-v0", 0.5)),
        _rocking(0),
        {"right": _rocking(0.8), "left": _rocking(-0.8)},
        200,
        succeeds=True,
    ),
    "acrobot": Fresh(
        lambda: Success(_gym("Acrobot-v1", torque_noise_max=0.3)),
        _twisting(1),
        {"braking": _twisting(-1)},
        300,
        succeeds=True,
        space=Discrete(3),
    ),
    "doublependulum": Fresh(
        lambda: _gym("InvertedDoublePendulum-v5", 0.1),
        _balancing(1.0),
        {"weak": _balancing(0.6), "leaving": _balancing(1.0, 3.0)},
        200,
        succeeds=False,
    ),
    "reacher": Fresh(
        lambda: gymnasium.make("Reacher-v5", reward_control_weight=0.0).unwrapped,
        _pointing(1),
        {"away": _pointing(-1)},
        50,
        succeeds=False,
        space=BOTH,
    ),
    "ferry": Fresh(
        Ferry,
        _ferry(0.0, 0.8, True),
        {"hasty": _ferry(0.0, 1.2, False), "elsewhere": _ferry(1.0, 0.8, True)},
        150,
        succeeds=True,
        space=BOTH,
    ),
    "track": Fresh(
        Track,
        _driver(0.7, 1.0),
        {"fast": _driver(1.5, 1.0), "outside": _driver(0.7, 1.3)},
        200,
        succeeds=True,
        space=BOTH,
    ),
    "tank": Fresh(
        Tank,
        _pump(0.6, 2.0),
        {"low": _pump(0.3, 2.0), "high": _pump(1.0, 2.0)},
        150,
        succeeds=False,
    ),
}


#: Worlds that test what was mended after the report on those above.
SECOND: Mapping[str, Fresh] = {
    "hover": Fresh(
        Hover,
        _pilot(2.0, 0.0),
        {"corner": _pilot(2.0, 0.7), "low": _pilot(0.5, -0.6)},
        150,
        succeeds=False,
        space=BOTH,
    ),
    "turret": Fresh(
        Turret,
        _gunner(1.0),
        {"mirrored": _gunner(-1.0), "ahead": _gunner(0.0)},
        60,
        succeeds=False,
        space=BOTH,
    ),
    "crane": Fresh(
        Crane,
        _crane(1.5, 0.8, 1.0),
        {"rough": _crane(1.5, 3.0, 0.0), "back": _crane(-1.5, 0.8, 1.0)},
        200,
        succeeds=True,
    ),
}


FRESH = {**FIRST, **SECOND}


def episodes_of(world: str, source: str, count: int) -> Episodes:
    """The first episodes of a source of a world."""
    fresh, env = FRESH[world], FRESH[world].make()
    act, number = fresh.controllers()[source], list(fresh.controllers()).index(source)
    seeds = (np.random.SeedSequence(0, spawn_key=(number, i)) for i in range(count))
    found = [rollout(env, act, seed) for seed in seeds]
    return Episodes.from_arrays(
        np.concatenate([r.observations for r in found]),
        lengths=[len(r.rewards) for r in found],
        terminated=[r.terminated for r in found],
        actions=np.concatenate([r.actions for r in found]),
        rewards=np.concatenate([r.rewards for r in found]),
        action_space=fresh.space,
    )


def recordings_of(world: str) -> tuple[Episodes, Episodes]:
    """The demonstrations without actions, and the logs."""
    good, *others = FRESH[world].controllers()
    few = (LOGGED - GOOD) // len(others)
    expert = episodes_of(world, good, DEMONSTRATIONS + GOOD)
    logs = {good: expert.first(GOOD, skip=DEMONSTRATIONS)}
    logs |= {source: episodes_of(world, source, few) for source in others}
    return expert.first(DEMONSTRATIONS).without_actions(), mixture(logs)
