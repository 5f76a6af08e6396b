"""The mean scores of late evaluations in two folders of an experiment, task by task.

python benchmarks/late_scores.py results/mujoco results/mujoco_penalty --since 100000 --until 280000

The score of a single last policy varies by several points. The mean over many evaluations of a run
varies less. Only tasks, seeds and steps in both folders count. It prints each mean with its
standard error over the seeds, the difference of the means, and its p-value (Welch's t-test).
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from scipy.stats import ttest_ind

from lobsdice.experiments.control.grid import IDENTITY, task_of
from lobsdice.experiments.control.trials import SCORES
from lobsdice.experiments.plots.learning import standard_error
from lobsdice.training.folder import read_rows


@dataclass(frozen=True)
class Comparison:
    one: Annotated[Path, tyro.conf.Positional]
    """A folder of an experiment."""
    other: Annotated[Path, tyro.conf.Positional]
    """Another folder of an experiment."""
    since: int = 0
    """The first step that counts."""
    until: int = 10**9
    """The last step that counts."""

    def run(self) -> None:
        one, other = (self.scores(folder) for folder in (self.one, self.other))
        tasks: dict[tuple, list[list[np.floating]]] = defaultdict(list)
        for run in one.keys() & other.keys():
            steps = one[run].keys() & other[run].keys()
            tasks[run[0]].append([np.mean([runs[run][s] for s in steps]) for runs in (one, other)])
        for task, means in sorted(tasks.items()):
            report(" ".join(map(str, task)), np.array(means))
        both = np.mean([np.mean(means, axis=0) for means in tasks.values()], axis=0)
        print(f"{'all':36s}{both[0]:6.1f}{both[1]:14.1f}")

    def scores(self, folder: Path) -> dict[tuple, dict[int, float]]:
        """The scores of each run at the steps that count. Its key is the task and `IDENTITY`."""
        runs: dict[tuple, dict[int, float]] = defaultdict(dict)
        for row in read_rows(folder / SCORES):
            if self.since <= row["step"] <= self.until:
                task = (row["algorithm"], *task_of(row))
                runs[task, tuple(row.get(name) for name in IDENTITY)][row["step"]] = row["score"]
        return runs


def report(task: str, means: np.ndarray) -> None:
    """Print a line about the runs of a task. `means` has a column for each folder."""
    told = [f"{mean.mean():6.1f} ± {standard_error(mean):3.1f}" for mean in means.T]
    difference = np.diff(means.mean(axis=0)).item()
    _, chance = ttest_ind(*means.T, equal_var=False)
    print(f"{task:36s}{'  '.join(told)}  {difference:+5.1f} (p = {chance:.2f})")


if __name__ == "__main__":
    tyro.cli(Comparison).run()
