"""The scores of an experiment as a Markdown table: a row for each task, a column for each curve.

python benchmarks/score_table.py results/mujoco_300k [--column score] [--step 300000]

Cells are means over the seeds with the 95 % interval of the mean (Student's t), at the last step or
at --step. The last rows are the mean and the interquartile mean over all tasks, with stratified
bootstrap intervals, for the curves that have all tasks.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from scipy.stats import t as student

from lobsdice.experiments import statistics
from lobsdice.experiments.control.experiment import EXPERIMENTS
from lobsdice.experiments.control.grid import Task, task_of
from lobsdice.experiments.control.trials import SCORES
from lobsdice.experiments.plots.learning import standard_error
from lobsdice.training.folder import read_rows


@dataclass(frozen=True)
class Table:
    folder: Annotated[Path, tyro.conf.Positional]
    """A folder of an experiment."""
    column: str = "score"
    """A column of scores.csv."""
    step: int | None = None
    """The step of the evaluations (default: the last one)."""
    digits: int = 1

    @cached_property
    def cells(self) -> dict[tuple[Task, Any], np.ndarray]:
        """The values of the seeds for each task and curve."""
        settings = json.loads((self.folder / "settings.json").read_text())
        curve = EXPERIMENTS[settings["experiment"]].curve
        rows = [row for row in read_rows(self.folder / SCORES) if row.get(self.column, "") != ""]
        step = self.step or max((row["step"] for row in rows), default=0)
        found = defaultdict(list)
        for row in rows:
            if row["step"] == step:
                found[task_of(row), row[curve]].append(row[self.column])
        if not found:
            raise SystemExit(f"{self.folder / SCORES} has no {self.column} at step {step}")
        return {key: np.array(values) for key, values in found.items()}

    def run(self) -> None:
        tasks, curves = (list(dict.fromkeys(key[i] for key in self.cells)) for i in (0, 1))
        line("task", *(f"`{curve}`" for curve in curves))
        line(*["---"] * (1 + len(curves)))
        for task in tasks:
            found = (self.cells.get((task, curve)) for curve in curves)
            told = ("" if x is None else self.with_error(x) for x in found)
            line(str(task), *told)
        for name in ("mean", "interquartile_mean"):
            whole = ([self.cells.get((task, curve)) for task in tasks] for curve in curves)
            line(f"all: {name.replace('_', ' ')}", *(self.over_all(name, x) for x in whole))

    def with_error(self, values: np.ndarray) -> str:
        if len(values) == 1:
            return f"{values[0]:.{self.digits}f}"
        half = student.ppf(0.975, len(values) - 1) * standard_error(values)
        return f"{values.mean():.{self.digits}f} ± {half:.{self.digits}f}"

    def over_all(self, name: str, tasks: list[np.ndarray | None]) -> str:
        have = [values for values in tasks if values is not None]
        if len(have) < len(tasks) or len({len(values) for values in have}) > 1:
            return ""
        found = statistics.interval(np.stack(have, axis=1), getattr(statistics, name))
        value, low, high = (f"{x:.{self.digits}f}" for x in found)
        return f"{value} ({low} to {high})"


def line(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    tyro.cli(Table).run()
