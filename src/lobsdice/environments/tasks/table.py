"""Every fact about the built-in tasks, in one table."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError

#: The sources of the MuJoCo tasks, those with the longest episodes first.
SOURCES = ("expert", "medium", "random")
#: The number of offline episodes of a world.
EPISODES = 300
#: The package of the worlds.
ROOM = "lobsdice.environments.worlds"
#: The names of tasks with noise that no observation shows end in this.
NOISY = "-noisy"

#: Written by `python -m lobsdice.environments.tasks.references`.
REFERENCES = Path(__file__).with_name("references.json")


@dataclass(frozen=True)
class Reference:
    """The measured return of one source's episodes."""

    mean: float
    standard_error: float
    episodes: int


@dataclass(frozen=True)
class Spec(ABC):
    """One built-in task: its environment and the sources of its episodes."""

    name: str
    environment: str
    """The Gymnasium id."""
    state_size: int
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Arguments of the environment."""
    max_steps: int = field(default=1000, kw_only=True)
    """An episode that lasts this long is truncated."""

    @property
    @abstractmethod
    def action_space(self) -> ActionSpace: ...

    @property
    @abstractmethod
    def sources(self) -> tuple[str, ...]:
        """The sources of episodes. The seeds depend on this order."""

    @property
    @abstractmethod
    def offline(self) -> Mapping[str, int]:
        """The number of offline episodes of each source, unless others are asked for."""

    @property
    @abstractmethod
    def packages(self) -> tuple[str, ...]:
        """The packages that the environment needs."""

    @property
    @abstractmethod
    def extra(self) -> str:
        """The extra of this package that installs them."""

    @property
    @abstractmethod
    def finite(self) -> bool:
        """True if there are so few states that episodes share pairs of states by chance."""

    def reference(self, source: str) -> Reference:
        """The measured return of this task's `expert` or `random` episodes."""
        return Reference(**_references()[self.name][source])

    def normalised(self, returns):
        """100 (return − random) / (expert − random), for a return or an array of them."""
        expert, random = self.reference("expert").mean, self.reference("random").mean
        return 100 * ((returns - random) / (expert - random))


@dataclass(frozen=True)
class MuJoCo(Spec):
    """A task of Gymnasium's MuJoCo, with trained behaviour policies that are shipped as files."""

    action_size: int
    noise: Mapping[str, float]
    """For each shipped policy, the factor of its standard deviation when it collects data."""
    bound: float = 1.0
    """Actions lie in [-bound, bound], in every column."""

    @property
    def entry_point(self) -> str | None:
        """The module and the function of an environment that is not Gymnasium's own."""
        return f"{ROOM}.trembling:make_trembling" if self.name.endswith(NOISY) else None

    @property
    def action_space(self) -> Box:
        return Box((-self.bound,) * self.action_size, (self.bound,) * self.action_size)

    @property
    def sources(self) -> tuple[str, ...]:
        return SOURCES

    @property
    def offline(self) -> Mapping[str, int]:
        return {"expert": 100, "medium": 500, "random": 500}

    @property
    def packages(self) -> tuple[str, ...]:
        return ("gymnasium", "mujoco")

    @property
    def extra(self) -> str:
        return "mujoco"

    @property
    def finite(self) -> bool:
        return False


@dataclass(frozen=True)
class World(Spec):
    """A task of the folder `worlds`, with scripted controllers as behaviour policies."""

    entry_point: str
    """The module and the class of the environment."""
    actions: ActionSpace
    bad: tuple[str, ...]
    """The controllers that are neither the expert nor random."""
    robotics: bool = False
    """True if the environment needs Gymnasium-Robotics."""
    few_states: bool = False

    @property
    def module(self) -> str:
        """The module of the environment and of its controllers."""
        return self.entry_point.partition(":")[0]

    @property
    def action_space(self) -> ActionSpace:
        return self.actions

    @property
    def sources(self) -> tuple[str, ...]:
        return ("expert", *self.bad, "random")

    @property
    def offline(self) -> Mapping[str, int]:
        """One episode in ten is the expert's; the others come from all bad sources alike."""
        _, *others = self.sources
        good = EPISODES // 10
        return {"expert": good} | {source: (EPISODES - good) // len(others) for source in others}

    @property
    def packages(self) -> tuple[str, ...]:
        return ("gymnasium", *(("mujoco", "gymnasium-robotics") if self.robotics else ()))

    @property
    def extra(self) -> str:
        return "robotics" if self.robotics else "mujoco"

    @property
    def finite(self) -> bool:
        return self.few_states


#: The tasks of continuous control.
TASKS: Mapping[str, MuJoCo] = {
    spec.name: spec
    for spec in (
        MuJoCo("hopper", "Hopper-v5", 11, 3, {"expert": 0.5, "medium": 1.0}),
        MuJoCo("walker2d", "Walker2d-v5", 17, 6, {"expert": 1.0, "medium": 1.0}),
        MuJoCo("halfcheetah", "HalfCheetah-v5", 17, 6, {"expert": 1.0, "medium": 1.0}),
        MuJoCo(
            "ant",
            "Ant-v5",
            27,
            8,
            # The expert acts without noise. Its returns vary all the same: see its reference.
            {"expert": 0.0, "medium": 1.0},
            # Without the contact forces there are 27 numbers, not 105.
            options={"include_cfrc_ext_in_observation": False},
        ),
    )
}

#: The standard deviation of the noise in each task's motors. The expert keeps most of its return.
TREMBLE = {"hopper": 0.1, "walker2d": 0.3, "halfcheetah": 0.2, "ant": 0.1}


def _trembling(spec: MuJoCo, tremble: float) -> MuJoCo:
    """The task with noise added to each action, and with the same behaviour policies."""
    title, _, version = spec.environment.partition("-")
    return replace(
        spec,
        name=f"{spec.name}{NOISY}",
        environment=f"lobsdice/{title}Noisy-{version}",
        options={**spec.options, "calm": spec.environment, "tremble": tremble},
    )


#: The same tasks with stochastic dynamics.
NOISY_TASKS: Mapping[str, MuJoCo] = {
    spec.name: spec for spec in (_trembling(TASKS[task], x) for task, x in TREMBLE.items())
}


def _worlds() -> Iterator[World]:
    """Each world in two versions: deterministic, and with noise that no observation shows."""
    plane, erring = Box((-1.0, -1.0), (1.0, 1.0)), ("wrong", "hasty")
    for suffix, title, on in (("", "", 0.0), (NOISY, "Noisy", 1.0)):
        yield World(
            f"grid{suffix}",
            f"lobsdice/Grid{title}-v0",
            2,
            f"{ROOM}.grid:Grid",
            Discrete(4),
            erring,
            few_states=True,
            options={"slip": 0.2 * on},
            max_steps=60,
        )
        yield World(
            f"reach{suffix}",
            f"lobsdice/Reach{title}-v0",
            4,
            f"{ROOM}.reach:Reach",
            plane,
            erring,
            options={"gust": 1.2 * on},
            max_steps=150,
        )
        yield World(
            f"pointmaze{suffix}",
            f"lobsdice/PointMaze{title}-v0",
            6,
            f"{ROOM}.pointmaze:PointMaze",
            plane,
            erring,
            robotics=True,
            options={"tremble": 1.5 * on},
            max_steps=400,
        )
        yield World(
            f"cartpole{suffix}",
            f"lobsdice/CartPole{title}-v0",
            4,
            f"{ROOM}.cartpole:CartPole",
            Discrete(2),
            ("leaning", "drifting"),
            options={"push": 0.3 * on},
            max_steps=250,
        )


#: The tasks that end in success or failure.
WORLDS: Mapping[str, World] = {spec.name: spec for spec in _worlds()}

#: Every task that `load` knows.
BUILT_IN: Mapping[str, Spec] = {**TASKS, **NOISY_TASKS, **WORLDS}


def spec_of(task: str) -> Spec:
    """The row of a task in the table."""
    if task not in BUILT_IN:
        raise LobsDICEError(f"there is no task {task!r}; the tasks are {', '.join(BUILT_IN)}")
    return BUILT_IN[task]


def family(task: str) -> str:
    """The name of a task without its version: both versions of hopper are of the family hopper."""
    return task.removesuffix(NOISY)


def task_of(environment: str) -> Spec | None:
    """The built-in task of this name or Gymnasium id, if there is one."""
    return next((s for s in BUILT_IN.values() if environment in (s.name, s.environment)), None)


@cache
def _references() -> dict[str, dict[str, dict[str, Any]]]:
    return json.loads(REFERENCES.read_text())["returns"]
