"""`lobsdice experiment`: the paper's tables and figures on finite MDPs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import OmitArgPrefixes

from lobsdice import console
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.protocol import Protocol

Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]
DEFAULTS = Protocol()


@dataclass(frozen=True)
class RandomMDP:
    """Learn from observation in random MDPs: figures 1 and 4 of the paper.

    Writes random_mdp.csv and figures of it. A run that was interrupted goes on where it was.

    Example:
        lobsdice experiment random-mdp --seeds 1000 -o results
        lobsdice experiment random-mdp --seeds 20 --betas 1 --experts 1000 -o quick
    """

    out: Out
    """The folder to write to."""
    seeds: int = 1000
    """Random MDPs, each with its own data."""
    workers: Annotated[
        int | None, tyro.conf.arg(help_behavior_hint="(default: one a processor)")
    ] = None
    """Processes to use."""
    protocol: OmitArgPrefixes[Protocol] = DEFAULTS

    def run(self) -> None:
        from lobsdice.experiments.random_mdp import experiment

        if self.workers is not None and self.workers < 1:
            raise LobsDICEError(f"--workers must be at least 1, but is {self.workers}")
        _report(experiment(self.protocol, self.seeds, self.out, workers=self.workers))


@dataclass(frozen=True)
class Circle:
    """Match states, or pairs of states, on a ring: figure 3 of the paper.

    Writes circle.csv and a figure of it.

    Example:
        lobsdice experiment circle -o results
    """

    out: Out
    """The folder to write to."""
    states: int = 12
    """States of the ring."""
    gamma: float = 0.95
    """The discount."""
    alpha: float = 0.001
    """The weight of the regulariser, which keeps the policy near the data's."""

    def run(self) -> None:
        from lobsdice.experiments.circle import experiment

        _report(experiment(self.out, states=self.states, gamma=self.gamma, alpha=self.alpha))


def _report(paths: list[Path]) -> None:
    for path in paths:
        console.out.print(f"wrote {path}", markup=False, highlight=False)
