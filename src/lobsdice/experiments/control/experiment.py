"""The paper's continuous-control experiments (section 5.2, appendices H and J) as tables of runs.

    mujoco                 figure 2: all algorithms, four environments, three mixtures
    fewer-demonstrations   figure 7: LobsDICE with 1, 3 and 5 demonstrations
    subsampled             figure 5: every 20th transition of 50 demonstrations
    idm-error              figure 6: the inverse dynamics model's error on the expert's transitions
    gamma-one              figure 8: LobsDICE without discount

Scores are those of the last policy. The best score is beside it, but nothing is chosen by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lobsdice.data.files import write_csv
from lobsdice.errors import LobsDICEError
from lobsdice.experiments import statistics
from lobsdice.experiments.control.grid import Grid, Plan, Trial
from lobsdice.experiments.control.trials import EXPERT_ERROR, SCORES, failures, run_all
from lobsdice.experiments.plots.common import save
from lobsdice.experiments.plots.learning import TASK, last_bars, learning_grid, standard_error
from lobsdice.experiments.settings import check_alike, claim
from lobsdice.training.folder import read_rows
from lobsdice.training.loggers import Row

FAILURES = "failures.csv"


class Experiment(NamedTuple):
    """The trials of an experiment, and the curves of its figure."""

    trials: Callable[[Grid], list[Trial]]
    curve: str
    """The column whose values are compared."""
    label: str = "{}"


EXPERIMENTS = {
    "mujoco": Experiment(lambda grid: grid.trials(), "algorithm"),
    "fewer_demonstrations": Experiment(
        lambda grid: [
            trial for n in (5, 3, 1) for trial in grid.trials(["lobsdice"], demonstrations=n)
        ],
        "demonstrations",
        "{} demonstrations",
    ),
    "subsampled": Experiment(
        lambda grid: grid.trials(demonstrations=50, subsample=20), "algorithm"
    ),
    "idm_error": Experiment(lambda grid: grid.trials(["bco"], labelled=True), "algorithm"),
    "gamma_one": Experiment(
        lambda grid: [*grid.trials(["lobsdice"]), *grid.trials(["lobsdice"], gamma=1.0)],
        "gamma",
        "γ = {}",
    ),
}


def experiment(
    name: str,
    grid: Grid,
    plan: Plan,
    folder: Path,
    *,
    data: str = "built-in",
    reuse: Sequence[Path] = (),
    jobs: int = 1,
) -> list[Path]:
    """Train the runs that are missing, then write the tables and the figure.

    Runs in the folders of `reuse`, of this or another experiment, are copied. Longer ones are cut:
    without a cooldown the first n steps of a longer run are a run of n steps. `jobs` fleets train
    at a time.
    """
    if jobs < 1:
        raise LobsDICEError(f"jobs is {jobs}; it must be at least 1")
    settings = asdict(plan) | {"experiment": name, "data": data}
    lengths = set() if plan.cooldown else {"steps"}
    for other in reuse:
        check_alike(other, settings, apart_from={"experiment", "every"} | lengths)
    trials = EXPERIMENTS[name].trials(grid)
    claim(folder, settings)
    run_all(trials, plan, data, folder, reuse=reuse, jobs=jobs)
    return [folder / SCORES, *write_tables(name, folder), *draw_scores(name, folder)]


def write_tables(name: str, folder: Path) -> list[Path]:
    """Write summary.csv (each task), aggregate.csv (all tasks), and failures.csv if any failed."""
    rows = read_rows(folder / SCORES)  # with the runs of earlier commands
    curve, found = EXPERIMENTS[name].curve, failures(folder)
    paths = [
        write_csv(folder / "summary.csv", summary(rows, curve)),
        write_csv(folder / "aggregate.csv", aggregate(rows, curve)),
    ]
    table = [{"fleet": fleet, "why": why} for fleet, why in found.items()]
    if table:
        paths.append(write_csv(folder / FAILURES, table))
    else:
        (folder / FAILURES).unlink(missing_ok=True)  # those fleets have since been trained
    return paths


def draw_scores(name: str, folder: Path) -> list[Path]:
    """Draw the figure of scores.csv."""
    if name == "idm_error":
        label = "squared error on the expert's actions"
        figure = last_bars(folder / SCORES, column=EXPERT_ERROR, label=label)
    else:
        _, curve, label = EXPERIMENTS[name]
        figure = learning_grid(folder / SCORES, curve=curve, label=label)
    return save(figure, folder / name)


def summary(rows: list[Row], curve: str) -> list[dict[str, Any]]:
    """A row for each task and curve: the scores of the last and the best policy over the seeds."""
    table = []
    for (value, *task), runs in _by(rows, (curve, *TASK)).items():
        last, best = _last(runs), _best(runs)
        table.append(
            dict(zip((curve, *TASK), (value, *task), strict=True))
            | {
                "seeds": len(last),
                "steps": max(row["step"] for row in runs),
                "last_mean": f"{last.mean():.2f}",
                "last_standard_error": f"{standard_error(last):.2f}",
                "last_least": f"{last.min():.2f}",
                "best_mean": f"{best.mean():.2f}",
            }
        )
    return table


def aggregate(rows: list[Row], curve: str) -> list[dict[str, Any]]:
    """A row for each curve: mean and interquartile mean over all tasks, with 95 % intervals."""
    table = []
    for (value,), mine in _by(rows, (curve,)).items():
        tasks = [_last(runs) for runs in _by(mine, TASK).values()]
        seeds = min(map(len, tasks))
        scores = np.stack([task[:seeds] for task in tasks], axis=1)
        line = {curve: value, "tasks": len(tasks), "seeds": seeds}
        for name, statistic in (("mean", statistics.mean), ("iqm", statistics.interquartile_mean)):
            found = statistics.interval(scores, statistic)
            line |= {
                name: f"{found.value:.2f}",
                f"{name}_low": f"{found.low:.2f}",
                f"{name}_high": f"{found.high:.2f}",
            }
        table.append(line)
    return table


def _by(rows: list[Row], columns: Sequence[str]) -> dict[tuple, list[Row]]:
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return groups


def _last(rows: list[Row]) -> np.ndarray:
    """The score of each seed's last policy."""
    end = max(row["step"] for row in rows)
    return np.array([row["score"] for row in rows if row["step"] == end])


def _best(rows: list[Row]) -> np.ndarray:
    """The best score of each seed, without policies that broke the simulation."""
    seeds = _by(rows, ("seed",)).values()
    return np.array([np.fmax.reduce([r["score"] for r in runs]) for runs in seeds])
