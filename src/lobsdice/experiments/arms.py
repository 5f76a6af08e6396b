"""Arms of experiments: an algorithm with settings of its own, such as `lobsdice:averaged=false`.

A setting is a hyperparameter of the algorithm, or one of the settings of training and of data in
which the defaults differ from the paper. The word `paper` stands for all settings of the paper;
words after it count: `lobsdice:paper,initial=first`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.hyperparameters import assignments, given, like, names

if TYPE_CHECKING:
    from lobsdice.algorithms import Algorithm
    from lobsdice.training.engine import Options

#: The word for all settings of the paper.
PAPER = "paper"


@dataclass(frozen=True)
class Settings:
    """The settings of an arm: those of its algorithm, of training, and of the data."""

    algorithm: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    preparation: Mapping[str, Any] = field(default_factory=dict)

    def make(self, shared: Mapping[str, Any]) -> "Algorithm":
        """The algorithm with its own hyperparameters, and with the shared ones that it has."""
        from lobsdice.algorithms import ALGORITHMS

        return given(ALGORITHMS[self.algorithm](), {**shared, **self.hyperparameters})

    def options(self, shared: "Options") -> "Options":
        """The shared options of training with its own in their place."""
        return replace(shared, **self.training)

    def others(self) -> dict[str, dict[str, Any]]:
        """The settings of training and of data, if there are any."""
        parts = {"training": dict(self.training), "preparation": dict(self.preparation)}
        return {name: part for name, part in parts.items() if part}

    @property
    def initial(self) -> Any:
        """The states of its data that stand for initial states."""
        return self.preparation.get("initial", "first")


def split(text: str) -> tuple[str, tuple[str, ...]]:
    """The algorithm of an arm and the words of its settings."""
    algorithm, _, words = text.partition(":")
    return algorithm, tuple(words.split(",")) if words else ()


def settings_of(algorithm: str, words: Sequence[str]) -> Settings:
    """The settings that the words give; raise if the algorithm has no such setting."""
    from lobsdice.algorithms import ALGORITHMS
    from lobsdice.data.recordings import Preparation
    from lobsdice.training.engine import Options
    from lobsdice.training.recipe import PUBLISHED_PREPARATION, PUBLISHED_TRAINING

    kind, found = ALGORITHMS[algorithm], {}
    for word in words:
        found |= published(algorithm) if word == PAPER else assignments([word])
    others = {key: x for key, x in found.items() if key not in names(kind)}
    known = {**PUBLISHED_TRAINING, **PUBLISHED_PREPARATION}
    if unknown := [key for key in others if key not in known]:
        raise LobsDICEError(f"{algorithm} has no hyperparameter {unknown[0]!r}")
    training, preparation = (
        {key: like(getattr(usual, key), x) for key, x in others.items() if key in part}
        for part, usual in (
            (PUBLISHED_TRAINING, Options()),
            (PUBLISHED_PREPARATION, Preparation()),
        )
    )
    own = {key: x for key, x in found.items() if key not in others}
    return Settings(algorithm, own, training, preparation)


def published(algorithm: str) -> dict[str, Any]:
    """All settings of the paper where the defaults are others."""
    from lobsdice.algorithms import ALGORITHMS
    from lobsdice.training.recipe import PUBLISHED_PREPARATION, PUBLISHED_TRAINING

    return {**ALGORITHMS[algorithm].published, **PUBLISHED_TRAINING, **PUBLISHED_PREPARATION}
