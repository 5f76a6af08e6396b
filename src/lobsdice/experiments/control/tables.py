"""Tables of scores: each task, means over tasks, and leads over other curves.

A curve is what an experiment compares, such as an algorithm. Scores are those of the last policy.
The best score is beside it, but nothing is chosen by it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from lobsdice.experiments import statistics
from lobsdice.experiments.comparisons import cells, compare, grouped, over_tasks, seeds_of, stack
from lobsdice.experiments.control.grid import Task, task_of
from lobsdice.experiments.plots.learning import standard_error
from lobsdice.training.loggers import Row

#: The curve that is compared with the others, if the table has it.
FIRST = "lobsdice"
DIGITS = 2

Table = list[dict[str, Any]]
#: The values of each seed's evaluations, in the order of steps, by curve and task.
Evaluations = dict[Any, dict[Task, dict[int, Float64[np.ndarray, " _"]]]]


def evaluations(rows: Sequence[Row], curve: str) -> Evaluations:
    """The scores of all runs, by curve, task and seed."""
    found: dict[Any, dict[Task, dict[int, dict[int, float]]]] = {}
    for row in rows:
        runs = found.setdefault(row[curve], {}).setdefault(task_of(row), {})
        runs.setdefault(row["seed"], {})[row["step"]] = row["score"]
    return {
        value: {
            task: {
                seed: np.array([run[step] for step in sorted(run)]) for seed, run in runs.items()
            }
            for task, runs in tasks.items()
        }
        for value, tasks in found.items()
    }


def summary(rows: Sequence[Row], curve: str) -> Table:
    """A row for each task and curve: the scores of the last and the best policy over the seeds."""
    table, steps = [], _steps(rows, curve)
    for value, tasks in evaluations(rows, curve).items():
        for task, runs in tasks.items():
            last = np.array([scores[-1] for scores in runs.values()])
            # Without policies that broke the simulation, which have no score.
            best = np.array([np.fmax.reduce(scores) for scores in runs.values()])
            table.append(
                {curve: value}
                | task._asdict()
                | {"role": task.role, "seeds": len(last), "steps": steps[value, task]}
                | cells("last_mean", statistics.interval(last[:, None], statistics.mean), DIGITS)
                | {"last_standard_error": f"{standard_error(last):.2f}"}
                | {"last_least": f"{last.min():.2f}", "best_mean": f"{best.mean():.2f}"}
            )
    return table


def aggregate(rows: Sequence[Row], curve: str, group_of: Callable[[Task], str]) -> Table:
    """A row for each group of tasks and curve: means over tasks, with 95 % intervals.

    Intervals are over the seeds of these tasks; those of `mean_tasks` are over tasks as well.
    """
    table = []
    last = _last(rows, curve)
    for group, tasks in _groups(last, group_of).items():
        for value, found in last.items():
            mine = [task for task in tasks if task in found]
            scores = stack(found, mine)
            if not scores.size:
                continue
            line = {"group": group, curve: value, "tasks": len(mine), "seeds": seeds_of(scores)}
            line |= cells("mean", statistics.interval(scores, statistics.mean), DIGITS)
            line |= over_tasks("mean_tasks", scores, DIGITS)
            iqm = statistics.interval(scores, statistics.interquartile_mean)
            table.append(line | cells("iqm", iqm, DIGITS) | _least(scores))
    return table


def comparisons(rows: Sequence[Row], curve: str, group_of: Callable[[Task], str]) -> Table:
    """A row for each other curve and group of tasks: the lead of the first curve over it."""
    last = _last(rows, curve)
    first = FIRST if FIRST in last else next(iter(last))
    return [
        {"group": found.group, curve: first, "other": found.other} | found.columns(DIGITS)
        for found in compare(last, first, _groups(last, group_of))
    ]


def _last(rows: Sequence[Row], curve: str) -> dict[Any, dict[Task, dict[int, float]]]:
    """The score of each run's last policy."""
    return {
        value: {task: {s: float(x[-1]) for s, x in runs.items()} for task, runs in tasks.items()}
        for value, tasks in evaluations(rows, curve).items()
    }


def _groups(last: dict[Any, dict[Task, Any]], of: Callable[[Task], str]) -> dict[str, list[Task]]:
    return grouped(dict.fromkeys(task for tasks in last.values() for task in tasks), of)


def _steps(rows: Sequence[Row], curve: str) -> dict[tuple[Any, Task], int]:
    """The last step of each curve and task."""
    steps: dict[tuple[Any, Task], int] = {}
    for row in rows:
        key = row[curve], task_of(row)
        steps[key] = max(steps.get(key, 0), row["step"])
    return steps


def _least(scores: statistics.Scores) -> dict[str, str]:
    """The lowest mean of a task, and the lowest score of a run."""
    return {"least_task": f"{scores.mean(axis=0).min():.2f}", "least_run": f"{scores.min():.2f}"}
