"""Sources of episodes for the continuous-control experiments: built-in tasks or the user's files.

Both have episodes of an expert, a medium and a random policy for each environment. Demonstrations
and offline data take the first ones. In scores the random policy has 0 and the expert 100.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read
from lobsdice.environments.tasks.table import spec_of
from lobsdice.environments.tasks.task import cached, cached_files
from lobsdice.errors import LobsDICEError

#: The name of the source of the built-in tasks' episodes.
BUILT_IN = "built-in"
#: Patterns of file names that have a short name.
PATTERNS = {
    "d4rl": "{where}/{env}_{source}-v2.hdf5",
    "minari": "{where}/{env}/{source}-v0",
}
#: Gymnasium's versions for recordings of other versions than the built-in tasks'. D4RL's were made
#: in v2, which needs mujoco-py; v4 has its models and rewards, with MuJoCo's own bindings
#: (https://gymnasium.farama.org/environments/mujoco/walker2d/#version-history).
VERSIONS = {"d4rl": "v4"}


@runtime_checkable
class EpisodeSource(Protocol):
    """Episodes by environment and policy, and a scale of returns."""

    def episodes(self, environment: str, counts: Mapping[str, int]) -> Mapping[str, Episodes]:
        """At least `counts[policy]` episodes of each policy (`expert`, `medium`, `random`)."""
        ...

    def files(self, environment: str, counts: Mapping[str, int]) -> list[Path]:
        """The files that these episodes are read from."""
        ...

    def place(self, environment: str) -> str:
        """The built-in task or the Gymnasium id to evaluate policies in."""
        ...

    def normalised(self, environment: str, mean_return: float) -> float:
        """100 (return − random) / (expert − random)."""
        ...


@dataclass(frozen=True)
class BuiltIn:
    """The built-in tasks. Missing episodes are collected."""

    def episodes(self, environment: str, counts: Mapping[str, int]) -> Mapping[str, Episodes]:
        return cached(spec_of(environment), counts, seed=0)

    def files(self, environment: str, counts: Mapping[str, int]) -> list[Path]:
        return cached_files(spec_of(environment), seed=0)

    def place(self, environment: str) -> str:
        return environment

    def normalised(self, environment: str, mean_return: float) -> float:
        return float(spec_of(environment).normalised(mean_return))


@dataclass(frozen=True)
class Files:
    """The user's files, one for each environment and policy. Nothing is downloaded."""

    pattern: str
    """A path or the id of a Minari dataset, with {env} and {source} in it."""
    version: str | None = None
    """The version of Gymnasium's environments to evaluate in; None: that of the built-in tasks."""

    def episodes(self, environment: str, counts: Mapping[str, int]) -> Mapping[str, Episodes]:
        return {source: self._read(environment, source) for source in counts}

    def files(self, environment: str, counts: Mapping[str, int]) -> list[Path]:
        # Scores need the returns of the expert's and the random policy's.
        paths = (Path(self._path(environment, who)) for who in {*counts, "expert", "random"})
        return sorted(path for path in paths if path.is_file())

    def place(self, environment: str) -> str:
        title, _, _ = spec_of(environment).environment.partition("-")
        return f"{title}-{self.version}" if self.version else environment

    def normalised(self, environment: str, mean_return: float) -> float:
        expert, random = (self._mean_return(environment, who) for who in ("expert", "random"))
        return 100 * (mean_return - random) / (expert - random)

    def _mean_return(self, environment: str, source: str) -> float:
        returns = self._read(environment, source).returns()
        if returns is None:
            raise LobsDICEError(f"{self._path(environment, source)} has no rewards to score with")
        return float(np.mean(returns))

    def _read(self, environment: str, source: str) -> Episodes:
        size = spec_of(environment).state_size
        return _first_columns(_read(self._path(environment, source)), size)

    def _path(self, environment: str, source: str) -> str:
        return self.pattern.format(env=environment, source=source)


def make_source(name: str) -> EpisodeSource:
    """Return a source by its name.

    Names are `built-in`, `d4rl:FOLDER`, `minari:NAMESPACE`, and patterns with {env} and {source}.
    """
    if name == BUILT_IN:
        return BuiltIn()
    kind, _, where = name.partition(":")
    if kind in PATTERNS and where:
        return Files(PATTERNS[kind].replace("{where}", where), VERSIONS.get(kind))
    if "{env}" in name and "{source}" in name:
        return Files(name)
    raise LobsDICEError(
        f"the data source {name!r} is none of built-in, d4rl:FOLDER, minari:NAMESPACE, or a path "
        "with {env} and {source} in it"
    )


def absolute_name(name: str) -> str:
    """The name of a source with an absolute path, for programs that start in another folder."""
    kind, colon, where = name.partition(":")
    if kind == "d4rl" and colon:
        return f"d4rl:{Path(where).absolute()}"
    fixed = Path(name.partition("{")[0] + "x").parent
    return str(Path(name).absolute()) if "{" in name and fixed.exists() else name


@cache
def _read(path: str) -> Episodes:
    return read(path)


def _first_columns(episodes: Episodes, size: int) -> Episodes:
    """Drop surplus columns. Recordings of Ant may have contact forces after the task's 27."""
    if episodes.state_size < size:
        raise LobsDICEError(f"observations have {episodes.state_size} numbers; {size} are needed")
    return replace(episodes, observations=np.ascontiguousarray(episodes.observations[:, :size]))
