"""The worlds, arms and trials of the experiment, and the settings of its runs; light to import.

An arm is an algorithm with its reading of ends and its logs. The worlds have two roles, fixed
before any result: defaults are chosen on the first four, and the other four are only reported.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from lobsdice.environments.tasks.table import WORLDS
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control.grid import Plan, _check_names

if TYPE_CHECKING:
    from lobsdice.algorithms import Algorithm
    from lobsdice.training.engine import Options

#: The worlds of each role.
ROLES: Mapping[str, tuple[str, ...]] = {
    "choosing": ("grid", "grid-noisy", "reach", "reach-noisy"),
    "reporting": ("pointmaze", "pointmaze-noisy", "cartpole", "cartpole-noisy"),
}
READINGS = ("restart", "stay", "keep")
LOBSDICE, SUCCESSFUL = "lobsdice", "bc-successful"


def role(world: str) -> str:
    """The role of a world: `choosing` or `reporting`."""
    return next(name for name, worlds in ROLES.items() if world in worlds)


@dataclass(frozen=True)
class Arm:
    """What is trained with every seed in every world."""

    name: str
    algorithm: str
    terminal: str
    """What follows an end."""
    successful: bool = False
    """True if the logs are the successful episodes alone, which only an oracle knows."""


@dataclass(frozen=True)
class Trial:
    """One run. Its seed is also that of its demonstrations and logs."""

    arm: Arm
    world: str
    seed: int

    def columns(self) -> dict[str, Any]:
        """The columns of the trial in a table."""
        return {"arm": self.arm.name, "world": self.world, "seed": self.seed}


@dataclass(frozen=True)
class Choice:
    """The worlds, arms and seeds of an experiment."""

    worlds: tuple[str, ...] = tuple(world for worlds in ROLES.values() for world in worlds)
    """Worlds."""
    algorithms: tuple[str, ...] = (LOBSDICE, "bc", SUCCESSFUL, "bco")
    """Algorithms; `bc-successful` clones the successful logs alone, which only an oracle knows."""
    terminal: tuple[str, ...] = ()
    """What follows an end for LobsDICE: restart, stay, keep; one arm each (default: that of
    training)."""
    seeds: int = 5
    """Runs with the seeds 0, 1, ..., each with demonstrations and logs of its own."""

    def __post_init__(self):
        _check_names("world", self.worlds, WORLDS)
        _check_names("reading of an end", self.terminal, READINGS)
        if not self.worlds or not self.algorithms or self.seeds < 1:
            raise LobsDICEError("an experiment needs worlds, algorithms and seeds")

    def readings(self) -> tuple[str, ...]:
        """What follows an end, for each arm of LobsDICE."""
        return self.terminal or (_usual_terminal(),)

    def arms(self) -> list[Arm]:
        """The arms; `lobsdice-stay` and the like read ends in another way than the default."""
        from lobsdice.algorithms import ALGORITHMS

        _check_names("algorithm", self.algorithms, [*ALGORITHMS, SUCCESSFUL])
        usual, arms = _usual_terminal(), []
        for name in self.algorithms:
            if name == LOBSDICE:
                names = {t: name if t == usual else f"{name}-{t}" for t in self.readings()}
                arms += [Arm(found, name, terminal) for terminal, found in names.items()]
            elif name == SUCCESSFUL:
                arms.append(Arm(name, "bc", usual, successful=True))
            else:
                arms.append(Arm(name, name, usual))
        return arms

    def trials(self) -> list[Trial]:
        """A run for each arm, world and seed."""
        all_of_them = product(self.arms(), self.worlds, range(self.seeds))
        return list(dict.fromkeys(Trial(*parts) for parts in all_of_them))


def _usual_terminal() -> str:
    from lobsdice.training.engine import Options

    return Options().terminal


@dataclass(frozen=True)
class Overrides:
    """Hyperparameters for every algorithm that has them, instead of its defaults."""

    alpha: float | None = None
    """Weight of staying near the logs."""
    gamma: float | None = None
    """Discount."""
    set: tuple[str, ...] = ()
    """Other hyperparameters, such as nu_rate=0.001."""

    def values(self) -> dict[str, Any]:
        """The hyperparameters that were named; those of `set` are text."""
        named: dict[str, Any] = {"alpha": self.alpha, "gamma": self.gamma}
        for text in self.set:
            name, equals, value = text.partition("=")
            if not equals:
                raise LobsDICEError(f"{text!r} does not set a hyperparameter; write NAME=VALUE")
            named[name.replace("-", "_")] = value
        return {name: value for name, value in named.items() if value is not None}


def usual_plan() -> Plan:
    """The plan of this experiment: policies are evaluated rarely, in many episodes."""
    return Plan(steps=20_000, episodes=100, every=10_000)


@dataclass(frozen=True)
class Settings:
    """The settings that all runs of an experiment share."""

    plan: Plan = field(default_factory=usual_plan)
    overrides: Overrides = field(default_factory=Overrides)

    def to_plain(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return json.loads(json.dumps(asdict(self)))

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Settings":
        """The settings that `to_plain` wrote."""
        overrides = plain["overrides"] | {"set": tuple(plain["overrides"]["set"])}
        return Settings(Plan(**plain["plan"]), Overrides(**overrides))

    def options(self, arm: Arm) -> "Options":
        """The options of training."""
        terminal: Any = arm.terminal
        return replace(self.plan.options, terminal=terminal)

    def algorithm(self, name: str) -> "Algorithm":
        """The algorithm with its hyperparameters; it ignores those that it does not have."""
        from lobsdice.algorithms import ALGORITHMS

        usual = ALGORITHMS[name]()
        named = {"ratio_penalty": self.plan.ratio_penalty} | self.overrides.values()
        found = {key: value for key, value in named.items() if value is not None}
        mine = {key: value for key, value in found.items() if key in _names(usual)}
        return type(usual)(**{key: _like(getattr(usual, key), x) for key, x in mine.items()})

    def check(self, arms: list[Arm]) -> None:
        """Raise if a hyperparameter is named that no arm has."""
        known = {name for arm in arms for name in _names(self.algorithm(arm.algorithm))}
        for name in self.overrides.values():
            if name not in known:
                raise LobsDICEError(f"none of the algorithms has the hyperparameter {name!r}")


def _names(algorithm: Any) -> set[str]:
    return {f.name for f in fields(algorithm)}


def _like(usual: Any, value: Any) -> Any:
    """The value with the type of the usual one."""
    if isinstance(usual, bool):
        return str(value).lower() in ("1", "true", "yes")
    try:
        return type(usual)(value)
    except ValueError as error:
        raise LobsDICEError(f"{value!r} should be a number like {usual}") from error
