"""`lobsdice train`: one command for each algorithm."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

from lobsdice import console
from lobsdice.algorithms import ALGORITHMS
from lobsdice.cli import output
from lobsdice.cli.arguments import Out
from lobsdice.errors import LobsDICEError
from lobsdice.executors.job import Executor
from lobsdice.executors.options import Where
from lobsdice.training.folder import CONFIG, RunFolder
from lobsdice.training.loggers import Row
from lobsdice.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Train(Recipe):
    """The recipe of a run as options; `train_command` adds those of an algorithm."""

    out: Out
    expert: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    offline: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    labelled: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    mixture: Annotated[tuple[int, ...], arg(metavar="INT...")] = ()
    paper: bool = False
    """Train as the paper says, wherever the defaults differ from it; docs/algorithms/lobsdice.md
    lists where. Options that are given still count."""
    no_audit: bool = False
    """Leave out the quick audit of the files, whose verdict is one line."""
    quiet: bool = False
    """Print only warnings and the outcome: no progress, no messages."""
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        RunFolder(self.out).refuse_existing()  # at once, and not after the data was read
        if self.task is not None and self.env is not None:
            raise LobsDICEError(f"{self.task} has its own environment; leave --env out")
        recipe = self.as_published() if self.paper else self
        words = recipe.about(["lobsdice", *sys.argv[1:]])
        executor = self.where.executor(self.out)
        with console.quiet(self.quiet):
            train(recipe, words, audit=not self.no_audit and not self.quiet, executor=executor)


def train_command(name: str) -> type[Train]:
    """Return the command that trains one of `ALGORITHMS`."""
    kind = ALGORITHMS[name]
    command = make_dataclass(
        f"Train{kind.__name__}",
        [("algorithm", kind, field(default_factory=kind))],
        bases=(Train,),
        frozen=True,
        kw_only=True,
    )
    command.__doc__ = f"""Train {kind.__name__}: demonstrations and offline data in, a policy out.

    Example:
        lobsdice train {name} --expert demos.npz --offline logs.npz --out runs/mine
        lobsdice train {name} --task hopper --seeds 5 --steps 100000 --out runs/hopper
        lobsdice train {name} --expert demos.npz --offline logs.npz --out runs/mine --on ray
    """
    return command


def train(
    recipe: Recipe,
    about: Mapping[str, Any],
    *,
    resume: bool = False,
    audit: bool = False,
    executor: Executor | None = None,
) -> None:
    """Train, or go on training, here or where the executor says, and print the outcome."""
    try:
        if executor is None:
            run = recipe.train(about, resume=resume, audit=audit)
            rows, failures = run.rows, run.failures
        else:
            from lobsdice.executors.train import train_on

            train_on(executor, recipe, about)
            rows, failures = RunFolder(recipe.out).rows(), RunFolder(recipe.out).failures()
        report = outcome(recipe.out, rows, failures)
    except KeyboardInterrupt:
        if (recipe.out / CONFIG).exists():
            console.say(f"to go on from the last checkpoint: {resume_line(recipe)}")
        raise
    output.print_json(report) if recipe.json else print_outcome(report)


def resume_line(recipe: Recipe) -> str:
    """Return the command that continues a run, with the options that it must be given again."""
    env = ["--env", recipe.env] if recipe.env is not None and ":" in recipe.env else []
    return shlex.join(["lobsdice", "resume", str(recipe.out), *env, *log_options(recipe)])


def log_options(recipe: Recipe) -> list[str]:
    """Return the options of the logs that a recipe asks for."""
    tensorboard = ["--tensorboard"] if recipe.tensorboard else []
    return [*tensorboard, *(["--wandb", recipe.wandb] if recipe.wandb is not None else [])]


def outcome(out: Path, rows: Sequence[Row], failures: Mapping[int, str]) -> dict[str, Any]:
    """Return the last row of each run, and the folder of the policies."""
    last = rows[-1]["step"] if rows else 0
    return {
        "steps": last,
        "policies": str(out / "policies"),
        "runs": [row for row in rows if row["step"] == last],
        "failures": list(failures.values()),
    }


def print_outcome(report: Mapping[str, Any]) -> None:
    """Print the outcome in a few lines."""
    for name in ("return", "score"):
        values = [row[name] for row in report["runs"] if name in row]
        if values:
            console.show(f"{name} after {report['steps']} steps: {_over_seeds(values)}")
    for failure in report["failures"]:
        console.show(f"stopped early: {failure}")
    console.show(f"policies: {report['policies']}")


def _over_seeds(values: Sequence[float]) -> str:
    """The mean and, if there are several values, the least and the greatest one."""
    mean = f"{np.mean(values):.2f}"
    if len(values) == 1:
        return mean
    return f"{mean}, the mean of {len(values)} seeds ({min(values):.2f} to {max(values):.2f})"
