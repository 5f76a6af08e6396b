"""`lobsdice experiment`: the commands of the continuous-control experiments."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written
from lobsdice.executors.options import Where
from lobsdice.experiments.control.grid import Grid, Plan


@dataclass(frozen=True)
class _Control:
    """The options of all continuous-control experiments."""

    out: Out
    """Folder to write. Runs that are finished there are not repeated."""
    data: str = "built-in"
    """Recordings to use: `built-in` (they are collected), `d4rl:FOLDER`, `minari:NAMESPACE`, or a
    path with {env} and {source} in it, where the sources are expert, medium and random."""
    reuse: tuple[Path, ...] = ()
    """Folders of other experiments. Their runs are not repeated; longer ones are cut at --steps, if
    they were evaluated there."""
    jobs: int | None = None
    """Number of fleets to train at the same time. A fleet is the runs of one algorithm and shape,
    and does not fill a large GPU. Without it, one on this machine, and on a cluster as many as it
    has room for. If there are several, each is a process that writes log.txt in its folder."""
    grid: Grid = field(default_factory=Grid)
    plan: Plan = field(default_factory=Plan)
    where: Where = field(default_factory=Where)
    name: ClassVar[str]

    def __call__(self) -> None:
        from lobsdice.experiments.control.experiment import experiment

        paths = experiment(
            self.name,
            self.grid,
            self.plan,
            self.out,
            data=self.data,
            reuse=self.reuse,
            executor=self.where.executor(self.out, self.jobs),
        )
        print_written(paths)


@dataclass(frozen=True)
class MuJoCo(_Control):
    """All algorithms in four MuJoCo environments, on three mixtures each, as in figure 2.

    Writes scores.csv, summary.csv, aggregate.csv and a figure. The same command continues an
    interrupted experiment. Finished runs are not repeated, so the parts of a large table can be run
    one by one.

    Example:
        lobsdice experiment mujoco -o results/mujoco
        lobsdice experiment mujoco --jobs 6 -o results/mujoco
        lobsdice experiment mujoco --on ray --gpus 0.25 -o results/mujoco
        lobsdice experiment mujoco --env hopper --algorithms lobsdice bc --steps 100000 -o quick
        lobsdice experiment mujoco --data d4rl:datasets -o results/d4rl
    """

    name = "mujoco"


@dataclass(frozen=True)
class FewerDemonstrations(_Control):
    """LobsDICE with 1, 3 and 5 demonstrations: figure 7 of the paper.

    Example:
        lobsdice experiment fewer-demonstrations -o results/fewer_demonstrations
        lobsdice experiment fewer-demonstrations --reuse results/mujoco -o results/fewer
    """

    name = "fewer_demonstrations"


@dataclass(frozen=True)
class Subsampled(_Control):
    """All algorithms on every 20th transition of 50 demonstrations: figure 5 of the paper.

    Example:
        lobsdice experiment subsampled -o results/subsampled
    """

    name = "subsampled"


@dataclass(frozen=True)
class IDMError(_Control):
    """The inverse dynamics model's error on the expert's transitions: figure 6 of the paper.

    Example:
        lobsdice experiment idm-error -o results/idm_error
    """

    name = "idm_error"


@dataclass(frozen=True)
class GammaOne(_Control):
    """LobsDICE with and without discount: figure 8 of the paper.

    Example:
        lobsdice experiment gamma-one -o results/gamma_one
    """

    name = "gamma_one"


@dataclass(frozen=True)
class Mixtures(_Control):
    """All algorithms on offline data that is harder to learn from, in four MuJoCo environments.

    The conditions are 20 and 5 expert episodes among the logs (few-20, few-5), none at all (none),
    the usual number in pieces of 50 steps (fragments), and noise that is not recorded added to each
    action (noisy). There are 500 medium and 500 random episodes.

    Example:
        lobsdice experiment mixtures --jobs 6 -o results/mixtures
        lobsdice experiment mixtures --conditions none noisy --algorithms lobsdice bco -o quick
    """

    grid: Grid = field(default_factory=lambda: Grid(sizes=(500,)))
    plan: Plan = field(default_factory=lambda: Plan(steps=100_000))
    name = "mixtures"
