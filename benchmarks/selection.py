"""Runs of LobsDICE with many settings, to see how well offline measures rank them.

python benchmarks/selection.py --task hopper --steps 100000 --out runs/selection

All settings and seeds train in one program. It writes the run folder OUT/TASK, and after each
evaluation OUT/TASK.csv. That has one row for each run and evaluation, with the setting of the run,
the offline measures, the return and the normalised score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from lobsdice import LobsDICE, Options, load
from lobsdice.data.files import write_csv
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Row
from lobsdice.training.train import train_fleet

VARIED = ("alpha", "gamma", "ratio_penalty", "nu_penalty")
#: Differences from the defaults (alpha 0.1, gamma 0.99, ratio_penalty 0.1, nu_penalty 1e-4): each
#: hyperparameter far below and above, and some harmful combinations.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "alpha 0.01": {"alpha": 0.01},
    "alpha 1": {"alpha": 1.0},
    "alpha 10": {"alpha": 10.0},
    "alpha 100": {"alpha": 100.0},
    "gamma 0.5": {"gamma": 0.5},
    "gamma 0.9": {"gamma": 0.9},
    "gamma 0.999": {"gamma": 0.999},
    "gamma 1": {"gamma": 1.0},
    "ratio penalty 0": {"ratio_penalty": 0.0},
    "ratio penalty 1": {"ratio_penalty": 1.0},
    "ratio penalty 10": {"ratio_penalty": 10.0},
    "nu penalty 1": {"nu_penalty": 1.0},
    "no penalties": {"ratio_penalty": 0.0, "nu_penalty": 0.0},
    "alpha 1, ratio penalty 10": {"alpha": 1.0, "ratio_penalty": 10.0},
}


@dataclass(frozen=True)
class Study:
    out: Path
    task: str = "hopper"
    steps: int = 100_000
    seeds: int = 2
    evaluations: int = 20
    episodes: int = 10
    mixture: tuple[int, int, int] = (100, 500, 500)
    batch_size: int = 512
    width: int = 256

    def run(self) -> None:
        counts: dict[str, int] = dict(zip(SOURCES, self.mixture, strict=True))
        task = load(self.task, expert=5, offline=counts)
        options = Options(steps=self.steps, batch_size=self.batch_size)
        members = tuple(
            Member(LobsDICE(width=self.width, **setting), seed, 0, options)
            for setting in SETTINGS.values()
            for seed in range(self.seeds)
        )
        folder = self.out / self.task
        resume = (folder / "config.json").exists()
        table = Table(self.out / f"{self.task}.csv", self.seeds)
        if resume and (rows := RunFolder(folder).rows()):
            table(rows)
        train_fleet(
            Fleet(members, (task.data,)),
            every=self.steps // self.evaluations,
            evaluate=lambda policies: task.evaluate(policies, episodes=self.episodes),
            out=folder,
            resume=resume,
            loggers=[table],
        )


@dataclass
class Table:
    """The rows so far, each with its setting. Each evaluation replaces the file."""

    path: Path
    seeds: int
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    """By step and run, because a run that continues may log its last row again."""

    def __call__(self, rows: Sequence[Row]) -> None:
        self.rows |= {(row["step"], row["run"]): self.tidy(row) for row in rows}
        write_csv(self.path, list(self.rows.values()), line_end="\r\n")

    def tidy(self, row: Row) -> Row:
        """A row of metrics with the setting in place of the number of the run."""
        name, setting = list(SETTINGS.items())[row["run"] // self.seeds]
        algorithm = LobsDICE(**setting)
        numbers = {f"set_{key}": getattr(algorithm, key) for key in VARIED}
        return {"setting": name, **numbers, **{k: v for k, v in row.items() if k != "run"}}


if __name__ == "__main__":
    tyro.cli(Study).run()
