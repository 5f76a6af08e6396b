"""The trials of the continuous-control experiments and their shared settings; light to import."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from lobsdice.environments.tasks.table import NOISY, NOISY_TASKS, SOURCES, TASKS, family
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.arms import Settings, settings_of, split
from lobsdice.experiments.hyperparameters import assignments, check, given, names

if TYPE_CHECKING:
    from lobsdice.algorithms import Algorithm
    from lobsdice.training.engine import Options

#: LobsDICE, the paper's baselines, and SMODICE, which the paper discusses.
COMPARED = ("lobsdice", "bc", "bco", "demodicefo", "smodice", "opolo", "iqlearn", "rce")
#: Expert episodes in the offline data of environments that have not 100 of them, as in the paper.
EXPERT = {"halfcheetah": 400}
#: The tasks that defaults are chosen on. All others are only reported.
CHOOSING = tuple((environment, (100, 500, 500)) for environment in ("hopper", "walker2d"))


@dataclass(frozen=True)
class Condition:
    """A reason why a mixture of offline data is hard to learn from."""

    expert: int | None = None
    """Expert episodes in the offline data; None stands for the usual number."""
    fragment: int | None = None
    """The expert's episodes in the offline data are cut into pieces of this many steps."""
    noisy: bool = False
    """True if noise that is not recorded adds to each action."""


#: The conditions of the experiment `mixtures`, by their names.
CONDITIONS: Mapping[str, Condition] = {
    "few-20": Condition(expert=20),
    "few-5": Condition(expert=5),
    "none": Condition(expert=0),
    "fragments": Condition(fragment=50),
    "noisy": Condition(noisy=True),
}


@dataclass(frozen=True)
class Trial:
    """The settings of one run of an experiment."""

    algorithm: str
    """Its name, which settings of its own may follow: see `experiments.arms`."""
    environment: str
    mixture: tuple[int, int, int]
    """Offline episodes of the expert, the medium and the random policy."""
    seed: int
    demonstrations: int = 5
    subsample: int = 1
    """Every n-th transition of the demonstrations is kept."""
    gamma: float | None = None
    """The discount; None is the algorithm's default."""
    labelled: bool = False
    """True if demonstrations keep their actions also for algorithms that do not need them."""
    fragment: int | None = None
    """The expert's offline episodes are cut into pieces of this many steps."""

    @property
    def dataset(self) -> "Trial":
        """The trial without the settings that its data does not depend on."""
        return replace(self, algorithm="", gamma=None)

    @property
    def offline(self) -> dict[str, int]:
        """The number of offline episodes of each source that has any."""
        return {s: n for s, n in zip(SOURCES, self.mixture, strict=True) if n}

    def make(self, values: Mapping[str, Any] = MappingProxyType({})) -> "Algorithm":
        """The algorithm with those of these hyperparameters that it has."""
        made = self.settings.make(values)
        return made if self.gamma is None else given(made, {"gamma": self.gamma})

    @property
    def settings(self) -> Settings:
        """The settings that follow the algorithm's name."""
        return settings_of(*split(self.algorithm))

    def columns(self) -> dict[str, Any]:
        """The columns of the trial in a table."""
        return {
            "algorithm": self.algorithm,
            "environment": self.environment,
            **dict(zip(SOURCES, self.mixture, strict=True)),
            "fragment": self.fragment or "",
            "demonstrations": self.demonstrations,
            "subsample": self.subsample,
            "gamma": getattr(self.make(), "gamma", ""),
            "seed": self.seed,
        }


#: The columns that tell trials apart.
IDENTITY = (
    "algorithm",
    "environment",
    *SOURCES,
    "fragment",
    "demonstrations",
    "subsample",
    "gamma",
    "seed",
)


@dataclass(frozen=True)
class Plan:
    """The settings that all runs of an experiment share."""

    steps: int = 1_000_000
    """Gradient steps of a run."""
    batch_size: int = 512
    """Batch size: rows of each part of the data in a step."""
    episodes: int = 10
    """Episodes of an evaluation."""
    every: int | None = None
    """Steps between evaluations (default: about a fiftieth of the steps)."""
    cooldown: float = 0.0
    """Last share of the steps (0 to 1) in which the learning rates decrease."""
    ratio_penalty: float | None = None
    """Weight of the discriminator's gradient penalty, for every algorithm that has one (default:
    each algorithm's own)."""
    set: tuple[str, ...] = ()
    """Other hyperparameters, such as width=64, for every algorithm that has them."""

    def to_plain(self) -> dict[str, Any]:
        """The plan as JSON can hold it; without `set` where that is empty, as in earlier tables."""
        plain = {key: x for key, x in asdict(self).items() if key != "set"}
        return plain | ({"set": list(self.set)} if self.set else {})

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Plan":
        """The plan that `to_plain` wrote."""
        return Plan(**{**plain, "set": tuple(plain.get("set", ()))})

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters that the plan names; those of `set` are text."""
        penalty = {} if self.ratio_penalty is None else {"ratio_penalty": self.ratio_penalty}
        return penalty | assignments(self.set)

    def check(self, algorithms: Iterable[str]) -> None:
        """Raise if `set` names a hyperparameter that no algorithm has, or that is a column."""
        from lobsdice.algorithms import ALGORITHMS

        if "gamma" in assignments(self.set):
            raise LobsDICEError("the discount has a column in the tables; `set` cannot change it")
        kinds = [ALGORITHMS[split(one)[0]] for one in algorithms]
        check(self.set, {name for kind in kinds for name in names(kind)})

    @cached_property
    def options(self) -> "Options":
        from lobsdice.training.engine import Options

        return Options(steps=self.steps, batch_size=self.batch_size, cooldown=self.cooldown)


@dataclass(frozen=True)
class Grid:
    """The environments, algorithms, seeds and mixtures of an experiment."""

    env: tuple[str, ...] = tuple(TASKS)
    """Environments."""
    algorithms: tuple[str, ...] = COMPARED
    """Algorithms, in the experiments that compare several. Hyperparameters may follow a name, as in
    lobsdice:averaged=false; lobsdice:paper has all settings of the paper."""
    seeds: int = 5
    """Runs with the seeds 0, 1, ..., each with demonstrations and logs of its own."""
    sizes: tuple[int, ...] = (100, 500, 1000)
    """Numbers of medium and of random episodes in the offline data, one mixture for each. They are
    our choice, since the paper's text does not give them."""
    expert: int | None = None
    """Expert episodes in a mixture (default: 100, and 400 for halfcheetah)."""
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    """Conditions, in the experiment `mixtures`."""

    def __post_init__(self):
        check_names("environment", self.env, [*TASKS, *NOISY_TASKS])
        check_names("condition", self.conditions, CONDITIONS)
        if not self.env or not self.algorithms or not self.sizes or self.seeds < 1:
            raise LobsDICEError("an experiment needs environments, algorithms, sizes and seeds")

    def tasks(self) -> list[tuple[str, tuple[int, int, int]]]:
        """All pairs of an environment and a mixture."""
        return [
            (
                env,
                (EXPERT.get(family(env), 100) if self.expert is None else self.expert, size, size),
            )
            for env, size in product(self.env, self.sizes)
        ]

    def trials(self, algorithms: Sequence[str] | None = None, **settings: Any) -> list[Trial]:
        """A run for each algorithm, task and seed."""
        from lobsdice.algorithms import ALGORITHMS

        check_names("algorithm", [split(name)[0] for name in self.algorithms], ALGORITHMS)
        chosen = self.algorithms if algorithms is None else algorithms
        return [
            Trial(name, env, mixture, seed, **settings)
            for name, (env, mixture), seed in product(chosen, self.tasks(), range(self.seeds))
        ]

    def hard_trials(self) -> list[Trial]:
        """A run for each condition, algorithm, task and seed."""
        return [
            trial
            for name in self.conditions
            for trial in self._under(CONDITIONS[name]).trials(fragment=CONDITIONS[name].fragment)
        ]

    def _under(self, condition: Condition) -> "Grid":
        version = NOISY if condition.noisy else ""
        return replace(
            self,
            env=tuple(family(env) + version for env in self.env),
            expert=self.expert if condition.expert is None else condition.expert,
        )


class Task(NamedTuple):
    """The columns by which algorithms are compared in a table of runs."""

    environment: str
    expert: int
    medium: int
    random: int
    fragment: int | str
    """Empty if the expert's offline episodes are whole."""

    @property
    def role(self) -> str:
        """The part that the task has in choosing defaults: `choosing` or `reporting`."""
        mixture = (self.expert, self.medium, self.random)
        chosen = (self.environment, mixture) in CHOOSING and not self.fragment
        return "choosing" if chosen else "reporting"

    @property
    def condition(self) -> str:
        """The name of the task's condition; `usual` if it has none."""
        noisy, pieces = self.environment.endswith(NOISY), bool(self.fragment)
        for name, found in CONDITIONS.items():
            alike = (found.noisy, found.fragment is not None) == (noisy, pieces)
            if alike and found.expert in (None, self.expert):
                return name
        return "usual"

    def __str__(self) -> str:
        pieces = f", pieces of {self.fragment}" if self.fragment else ""
        return f"{self.environment} ({self.expert}, {self.medium}, {self.random}{pieces})"


def task_of(row: Mapping[str, Any]) -> Task:
    """The task of a row of scores.csv. Earlier tables have no column `fragment`."""
    return Task(*(row.get(name, "") for name in Task._fields))


def check_names(what: str, names: Sequence[str], known: Collection[str]) -> None:
    """Raise if one of the names is not known."""
    for name in names:
        if name not in known:
            raise LobsDICEError(f"there is no {what} {name!r}, only {', '.join(known)}")
