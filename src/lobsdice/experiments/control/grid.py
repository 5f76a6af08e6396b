"""The trials of the continuous-control experiments and their shared settings; light to import."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from lobsdice.environments.tasks.table import SOURCES, TASKS
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.algorithms import Algorithm
    from lobsdice.training.engine import Options

#: LobsDICE, the paper's baselines, and SMODICE, which the paper discusses.
COMPARED = ("lobsdice", "bc", "bco", "demodicefo", "smodice", "opolo", "iqlearn", "rce")
#: Expert episodes in the offline data of environments that have not 100 of them, as in the paper.
EXPERT = {"halfcheetah": 400}


@dataclass(frozen=True)
class Trial:
    """The settings of one run of an experiment."""

    algorithm: str
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

    @property
    def dataset(self) -> "Trial":
        """The trial without the settings that its data does not depend on."""
        return replace(self, algorithm="", seed=0, gamma=None)

    @property
    def offline(self) -> dict[str, int]:
        """The number of offline episodes of each source that has any."""
        return {s: n for s, n in zip(SOURCES, self.mixture, strict=True) if n}

    def make(self, ratio_penalty: float | None = None) -> "Algorithm":
        """The algorithm with its hyperparameters; those without a `ratio_penalty` ignore it."""
        from lobsdice.algorithms import ALGORITHMS

        settings = {} if self.gamma is None else {"gamma": self.gamma}
        if ratio_penalty is not None and hasattr(ALGORITHMS[self.algorithm], "ratio_penalty"):
            settings["ratio_penalty"] = ratio_penalty
        return ALGORITHMS[self.algorithm](**settings)

    def columns(self) -> dict[str, Any]:
        """The columns of the trial in a table."""
        return {
            "algorithm": self.algorithm,
            "environment": self.environment,
            **dict(zip(SOURCES, self.mixture, strict=True)),
            "demonstrations": self.demonstrations,
            "subsample": self.subsample,
            "gamma": getattr(self.make(), "gamma", ""),
            "seed": self.seed,
        }


#: The columns that tell trials apart.
IDENTITY = ("algorithm", "environment", *SOURCES, "demonstrations", "subsample", "gamma", "seed")


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
    """Algorithms, in the experiments that compare several."""
    seeds: int = 5
    """Runs with the seeds 0, 1, ..."""
    sizes: tuple[int, ...] = (100, 500, 1000)
    """Numbers of medium and of random episodes in the offline data, one mixture for each. They are
    our choice, since the paper's text does not give them."""
    expert: int | None = None
    """Expert episodes in a mixture (default: 100, and 400 for halfcheetah)."""

    def __post_init__(self):
        check_names("environment", self.env, TASKS)
        if not self.env or not self.algorithms or not self.sizes or self.seeds < 1:
            raise LobsDICEError("an experiment needs environments, algorithms, sizes and seeds")

    def tasks(self) -> list[tuple[str, tuple[int, int, int]]]:
        """All pairs of an environment and a mixture."""
        return [
            (env, (EXPERT.get(env, 100) if self.expert is None else self.expert, size, size))
            for env, size in product(self.env, self.sizes)
        ]

    def trials(self, algorithms: Sequence[str] | None = None, **settings: Any) -> list[Trial]:
        """A run for each algorithm, task and seed."""
        from lobsdice.algorithms import ALGORITHMS

        check_names("algorithm", self.algorithms, ALGORITHMS)
        names = self.algorithms if algorithms is None else algorithms
        return [
            Trial(name, env, mixture, seed, **settings)
            for name, (env, mixture), seed in product(names, self.tasks(), range(self.seeds))
        ]


def check_names(what: str, names: Sequence[str], known: Collection[str]) -> None:
    """Raise if one of the names is not known."""
    for name in names:
        if name not in known:
            raise LobsDICEError(f"there is no {what} {name!r}, only {', '.join(known)}")
