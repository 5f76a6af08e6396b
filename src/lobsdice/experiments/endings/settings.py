"""The worlds, arms and trials of the experiment, and the settings of its runs; light to import.

An arm is an algorithm with its reading of ends and its logs. The worlds have two roles, fixed
before any result: defaults are chosen on the first four, and the other four are only reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from lobsdice.environments.tasks.table import WORLDS
from lobsdice.errors import LobsDICEError
from lobsdice.experiments import arms, hyperparameters
from lobsdice.experiments.control.grid import check_names

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
    """An algorithm with its settings, trained with every seed in every world."""

    name: str
    algorithm: str
    terminal: str
    """The reading of ends: what follows a final state."""
    successful: bool = False
    """True if the logs are the successful episodes alone, which only an oracle knows."""
    set: tuple[str, ...] = ()
    """Settings of its own, such as absorb=true; `experiments.arms` says which there are."""

    @property
    def settings(self) -> arms.Settings:
        """Its own settings by their kinds."""
        return arms.settings_of(self.algorithm, self.set)

    def to_plain(self) -> dict[str, Any]:
        """The arm as JSON can hold it; without `set` where that is empty."""
        plain = asdict(self) | {"set": list(self.set)}
        return plain if self.set else {k: x for k, x in plain.items() if k != "set"}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Arm":
        """The arm that `to_plain` wrote."""
        return Arm(**{**plain, "set": tuple(plain.get("set", ()))})


@dataclass(frozen=True)
class Trial:
    """One run. Its seed is also that of its demonstrations and logs."""

    arm: Arm
    world: str
    seed: int

    def columns(self) -> dict[str, Any]:
        """The columns of the trial in a table."""
        return {"arm": self.arm.name, "world": self.world, "seed": self.seed}

    def to_plain(self) -> dict[str, Any]:
        """The trial as JSON can hold it."""
        return {"arm": self.arm.to_plain(), "world": self.world, "seed": self.seed}


@dataclass(frozen=True)
class Choice:
    """The worlds, arms and seeds of an experiment."""

    worlds: tuple[str, ...] = tuple(world for worlds in ROLES.values() for world in worlds)
    """Worlds."""
    algorithms: tuple[str, ...] = (LOBSDICE, "bc", SUCCESSFUL, "bco")
    """Algorithms; `bc-successful` clones the successful logs alone, which only an oracle knows.
    Hyperparameters may follow a name, as in seabo:absorb=true; lobsdice:paper has all settings of
    the paper."""
    terminal: tuple[str, ...] = ()
    """The readings of ends for LobsDICE: restart, stay, keep; one arm each (default: that of
    training)."""
    seeds: int = 5
    """Runs with the seeds 0, 1, ..., each with demonstrations and logs of its own."""

    def __post_init__(self):
        check_names("world", self.worlds, WORLDS)
        check_names("reading of an end", self.terminal, READINGS)
        if not self.worlds or not self.algorithms or self.seeds < 1:
            raise LobsDICEError("an experiment needs worlds, algorithms and seeds")

    def readings(self) -> tuple[str, ...]:
        """The reading of ends of each arm of LobsDICE."""
        return self.terminal or (_usual_terminal(),)

    def arms(self) -> list[Arm]:
        """The arms; `lobsdice-stay` and the like read ends in another way than the default."""
        from lobsdice.algorithms import ALGORITHMS

        usual, found = _usual_terminal(), []
        for name in self.algorithms:
            algorithm, own = arms.split(name)
            check_names("algorithm", (algorithm,), [*ALGORITHMS, SUCCESSFUL])
            if own:
                found.append(Arm(name, algorithm, usual, set=own))
            elif name == LOBSDICE:
                names = {t: name if t == usual else f"{name}-{t}" for t in self.readings()}
                found += [Arm(named, name, terminal) for terminal, named in names.items()]
            elif name == SUCCESSFUL:
                found.append(Arm(name, "bc", usual, successful=True))
            else:
                found.append(Arm(name, name, usual))
        return found

    def trials(self) -> list[Trial]:
        """A run for each arm, world and seed."""
        all_of_them = product(self.arms(), self.worlds, range(self.seeds))
        return list(dict.fromkeys(Trial(*parts) for parts in all_of_them))


def _usual_terminal() -> str:
    from lobsdice.training.engine import Options

    return Options().terminal


@dataclass(frozen=True)
class Settings:
    """The settings that all runs share; hyperparameters are for every algorithm that has them."""

    steps: int = 20_000
    """Gradient steps of a run."""
    every: int = 10_000
    """Steps between evaluations."""
    episodes: int = 100
    """Episodes of an evaluation."""
    batch_size: int = 512
    """Batch size: rows of each part of the data in a step."""
    cooldown: float = 0.0
    """Last share of the steps (0 to 1) in which the learning rates decrease."""
    ratio_penalty: float | None = None
    """Weight of the discriminator's gradient penalty."""
    alpha: float | None = None
    """Weight of staying near the logs."""
    gamma: float | None = None
    """Discount."""
    set: tuple[str, ...] = ()
    """Other hyperparameters, such as nu_rate=0.001."""

    def to_plain(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return asdict(self) | {"set": list(self.set)}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Settings":
        """The settings that `to_plain` wrote."""
        return Settings(**{**plain, "set": tuple(plain["set"])})

    def options(self, arm: Arm) -> "Options":
        """The options of training."""
        from lobsdice.training.engine import Options

        terminal: Any = arm.terminal
        shared = Options(
            steps=self.steps,
            batch_size=self.batch_size,
            cooldown=self.cooldown,
            terminal=terminal,
        )
        return arm.settings.options(shared)

    def algorithm(self, name: str, own: Sequence[str] = ()) -> "Algorithm":
        """The algorithm with its hyperparameters; it ignores those that it does not have.

        Those of its `own` go before; it must have them.
        """
        return arms.settings_of(name, own).make(self.named())

    def named(self) -> dict[str, Any]:
        """The hyperparameters that were named; those of `set` are text."""
        named = {key: getattr(self, key) for key in ("ratio_penalty", "alpha", "gamma")}
        return {key: x for key, x in named.items() if x is not None} | hyperparameters.assignments(
            self.set
        )

    def check(self, arms: list[Arm]) -> None:
        """Raise if `set` names a hyperparameter that no algorithm has; warn if no arm has it.

        The arms of a folder may be run one by one, and share the settings.
        """
        made = [self.algorithm(arm.algorithm, arm.set) for arm in arms]
        hyperparameters.check(self.set, {n for one in made for n in hyperparameters.names(one)})
