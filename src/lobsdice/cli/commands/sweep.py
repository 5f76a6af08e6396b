"""`lobsdice sweep`: one command for each algorithm."""

from dataclasses import dataclass, field, make_dataclass
from typing import Annotated

from tyro.conf import arg

from lobsdice import console
from lobsdice.algorithms import ALGORITHMS
from lobsdice.cli import output
from lobsdice.cli.arguments import Out
from lobsdice.errors import LobsDICEError
from lobsdice.executors.options import Where
from lobsdice.experiments.sweep.space import read_space
from lobsdice.experiments.sweep.sweep import Plan, sweep
from lobsdice.training.folder import read_rows
from lobsdice.training.recipe import Recipe

#: Settings that are printed.
SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Sweep(Recipe):
    """The recipe of all runs as options; `sweep_command` adds those of an algorithm."""

    out: Out
    """Folder to write. The same command goes on with a sweep that was interrupted there, and so
    do the same commands on other machines that see the folder."""
    expert: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    offline: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    labelled: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    mixture: Annotated[tuple[int, ...], arg(metavar="INT...")] = ()
    space: Annotated[tuple[str, ...], arg(metavar="NAME=VALUES...")] = ()
    """The settings that vary: ranges of real numbers such as alpha=0.01..1:log, and lists such as
    width=128,256."""
    jobs: int | None = None
    """Fleets to train at the same time, of those of a round that differ in whole numbers or
    switches."""
    quiet: bool = False
    """Print only warnings and the tables: no progress, no messages."""
    plan: Plan = field(default_factory=Plan)
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        if self.task is not None and self.env is not None:
            raise LobsDICEError(f"{self.task} has its own environment; leave --env out")
        executor = self.where.executor(self.out, self.jobs)
        space = read_space(self.space, self)
        with console.quiet(self.quiet):
            paths = sweep(self, space, self.plan, executor=executor, every=self.every)
        rows = read_rows(paths[0])
        if self.json:
            return output.print_json(rows)
        columns = ("setting", "state", "step", "value", *space, "folder")
        output.print_rows(rows[:SHOWN], columns)
        output.print_written(paths)
        console.show(f"for a page about it: lobsdice report {self.out}")


def sweep_command(name: str) -> type[Sweep]:
    """Return the command that looks for hyperparameters of one of `ALGORITHMS`."""
    kind = ALGORITHMS[name]
    command = make_dataclass(
        f"Sweep{kind.__name__}",
        [("algorithm", kind, field(default_factory=kind))],
        bases=(Sweep,),
        frozen=True,
        kw_only=True,
    )
    command.__doc__ = f"""Look for good hyperparameters of {kind.__name__}, with Optuna.

    Settings are tried in rounds, and a round trains as one fleet. Settings are compared by the
    policy's error on the demonstrations (see `lobsdice select`) or, with an environment, by
    returns. The worse ones are dropped early.

    Example:
        lobsdice sweep {name} --expert demos.npz --offline logs.npz --out sweeps/mine \\
            --space policy-rate=1e-4..1e-2:log width=128,256 --steps 100000
        lobsdice sweep {name} --task reach --out sweeps/reach --space policy-rate=1e-4..1e-2:log
    """
    return command
