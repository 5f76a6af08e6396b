"""`lobsdice train`: one command for each algorithm."""

import shlex
import sys
from collections.abc import Mapping
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
from lobsdice.training.folder import CONFIG, RunFolder
from lobsdice.training.recipe import Recipe
from lobsdice.training.train import Run


@dataclass(frozen=True, kw_only=True)
class Train(Recipe):
    """The recipe of a run as options; `train_command` adds those of an algorithm."""

    out: Out
    offline: Annotated[tuple[str, ...], arg(metavar="PATH...")] = ()
    mixture: Annotated[tuple[int, ...], arg(metavar="INT...")] = ()
    paper: bool = False
    """Train as the paper says, wherever the defaults differ from it; docs/algorithms/lobsdice.md
    lists where. Options that are given still count."""

    def __call__(self) -> None:
        RunFolder(self.out).refuse_existing()  # at once, and not after the data was read
        if self.task is not None and self.env is not None:
            raise LobsDICEError(f"{self.task} has its own environment; leave --env out")
        recipe = self.as_published() if self.paper else self
        train(recipe, recipe.about(["lobsdice", *sys.argv[1:]]))


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
    """
    return command


def train(recipe: Recipe, about: Mapping[str, Any], *, resume: bool = False) -> None:
    """Train, or go on training, and print the outcome."""
    try:
        report = outcome(recipe.out, recipe.train(about, resume=resume))
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


def outcome(out: Path, run: Run) -> dict[str, Any]:
    """Return the last row of each run, and the folder of the policies."""
    last = run.rows[-1]["step"] if run.rows else 0
    rows = [row for row in run.rows if row["step"] == last]
    return {
        "steps": last,
        "policies": str(out / "policies"),
        "runs": rows,
        "failures": list(run.failures.values()),
    }


def print_outcome(report: Mapping[str, Any]) -> None:
    """Print the outcome in a few lines."""
    for name in ("return", "score"):
        values = [row[name] for row in report["runs"] if name in row]
        if values:
            spread = f" ± {np.std(values):.2f} over {len(values)} seeds" if len(values) > 1 else ""
            console.show(f"{name} after {report['steps']} steps: {np.mean(values):.2f}{spread}")
    for failure in report["failures"]:
        console.show(f"stopped early: {failure}")
    console.show(f"policies: {report['policies']}")
