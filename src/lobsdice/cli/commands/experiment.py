"""`lobsdice experiment`: the paper's tables and figures."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import tyro
from tyro.conf import OmitArgPrefixes

from lobsdice import console
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control.grid import Grid, Plan
from lobsdice.experiments.random_mdp.settings import Protocol

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
    workers: int | None = None
    """Processes to use (default: one a processor)."""
    protocol: OmitArgPrefixes[Protocol] = DEFAULTS

    def run(self) -> None:
        from lobsdice.experiments.random_mdp.experiment import experiment

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


@dataclass(frozen=True)
class _Continuous:
    """What the continuous-control experiments can be told."""

    out: Out
    """The folder to write to; what is finished there is not run again."""
    data: str = "built-in"
    """built-in (collected here), d4rl:FOLDER, minari:NAMESPACE, or a path with {env} and {source}
    in it; sources are expert, medium and random."""
    reuse: tuple[Path, ...] = ()
    """Folders of experiments, this or others, whose runs need not be repeated; longer ones are cut
    at --steps, if they were evaluated there."""
    jobs: int = 1
    """Programs (the runs of one algorithm and shape) that train at a time: one alone does not fill
    a large GPU. If several do, each is a process that writes to log.txt in its folder."""
    grid: OmitArgPrefixes[Grid] = field(default_factory=Grid)
    plan: OmitArgPrefixes[Plan] = field(default_factory=Plan)
    name: ClassVar[str]

    def run(self) -> None:
        from lobsdice.experiments.control.experiment import experiment

        paths = experiment(
            self.name,
            self.grid,
            self.plan,
            self.out,
            data=self.data,
            reuse=self.reuse,
            jobs=self.jobs,
        )
        _report(paths)


@dataclass(frozen=True)
class MuJoCo(_Continuous):
    """All algorithms in four MuJoCo environments, on three mixtures each: figure 2 of the paper.

    Writes scores.csv, summary.csv, aggregate.csv and a figure. What was interrupted goes on; what
    is finished is not run again, so the parts of a large table can be run one by one.

    Example:
        lobsdice experiment mujoco -o results/mujoco
        lobsdice experiment mujoco --jobs 6 -o results/mujoco
        lobsdice experiment mujoco --env hopper --algorithms lobsdice bc --steps 100000 -o quick
        lobsdice experiment mujoco --data d4rl:datasets -o results/d4rl
    """

    name = "mujoco"


@dataclass(frozen=True)
class FewerDemonstrations(_Continuous):
    """LobsDICE with 1, 3 and 5 demonstrations: figure 7 of the paper.

    Example:
        lobsdice experiment fewer-demonstrations -o results/fewer_demonstrations
        lobsdice experiment fewer-demonstrations --reuse results/mujoco -o results/fewer
    """

    name = "fewer_demonstrations"


@dataclass(frozen=True)
class Subsampled(_Continuous):
    """All algorithms on every 20th transition of 50 demonstrations: figure 5 of the paper.

    Example:
        lobsdice experiment subsampled -o results/subsampled
    """

    name = "subsampled"


@dataclass(frozen=True)
class IDMError(_Continuous):
    """The inverse dynamics model's error on the expert's transitions: figure 6 of the paper.

    Example:
        lobsdice experiment idm-error -o results/idm_error
    """

    name = "idm_error"


@dataclass(frozen=True)
class GammaOne(_Continuous):
    """LobsDICE with and without discount: figure 8 of the paper.

    Example:
        lobsdice experiment gamma-one -o results/gamma_one
    """

    name = "gamma_one"


def _report(paths: list[Path]) -> None:
    for path in paths:
        console.out.print(f"wrote {path}", markup=False, highlight=False)
