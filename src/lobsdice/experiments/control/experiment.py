"""The continuous-control experiments as tables of runs: the paper's, and one of our own.

mujoco                 figure 2: all algorithms, four environments, three mixtures
fewer-demonstrations   figure 7: LobsDICE with 1, 3 and 5 demonstrations
subsampled             figure 5: every 20th transition of 50 demonstrations
idm-error              figure 6: the inverse dynamics model's error on the expert's transitions
gamma-one              figure 8: LobsDICE without discount
mixtures               not in the paper: offline data that is harder to learn from
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.data.files import write_csv
from lobsdice.environments.tasks.behaviour import policies_digest
from lobsdice.executors.job import Executor
from lobsdice.experiments.control.data import POOL
from lobsdice.experiments.control.episodes import BUILT_IN
from lobsdice.experiments.control.grid import Grid, Plan, Task, Trial
from lobsdice.experiments.control.tables import aggregate, comparisons, summary
from lobsdice.experiments.control.trials import EXPERT_ERROR, SCORES, failures, run_all
from lobsdice.experiments.plots.common import save
from lobsdice.experiments.plots.learning import last_bars, learning_grid
from lobsdice.experiments.settings import check_alike, claim
from lobsdice.training.folder import read_rows

FAILURES = "failures.csv"


class Experiment(NamedTuple):
    """The trials of an experiment, and the curves of its figure."""

    trials: Callable[[Grid], list[Trial]]
    curve: str
    """The column whose values are compared."""
    label: str = "{}"
    group_of: Callable[[Task], str] = attrgetter("role")
    """The name of the group of a task, in tables over tasks."""


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
    "mixtures": Experiment(
        lambda grid: grid.hard_trials(), "algorithm", group_of=attrgetter("condition")
    ),
}


def experiment(
    name: str,
    grid: Grid,
    plan: Plan,
    folder: Path,
    *,
    data: str = BUILT_IN,
    reuse: Sequence[Path] = (),
    executor: Executor | None = None,
) -> list[Path]:
    """Train the runs that are missing, then write the tables and the figure.

    Runs in the folders of `reuse`, of this or another experiment, are copied. Longer ones are cut:
    without a cooldown the first n steps of a longer run are a run of n steps. Fleets train where
    the executor says; without one, in this process.
    """
    settings = settings_of(name, plan, data)
    lengths = set() if plan.cooldown else {"steps"}
    for other in reuse:
        check_alike(other, settings, apart_from={"experiment", "every"} | lengths)
    trials = EXPERIMENTS[name].trials(grid)
    plan.check(dict.fromkeys(trial.algorithm for trial in trials))
    claim(folder, settings)
    run_all(trials, plan, data, folder, reuse=reuse, executor=executor)
    return [folder / SCORES, *write_tables(name, folder), *draw_scores(name, folder)]


def settings_of(name: str, plan: Plan, data: str) -> dict[str, Any]:
    """All that the results of an experiment's runs have in common."""
    settings = plan.to_plain() | {"experiment": name, "data": data, "pool": POOL}
    return settings | ({"policies": policies_digest()} if data == BUILT_IN else {})


def write_tables(name: str, folder: Path) -> list[Path]:
    """Write summary.csv (each task), aggregate.csv (all tasks), comparisons.csv if there are
    several curves, and failures.csv if any run failed."""
    rows = read_rows(folder / SCORES)  # with the runs of earlier commands
    _, curve, _, group_of = EXPERIMENTS[name]
    paths = [
        write_csv(folder / "summary.csv", summary(rows, curve)),
        write_csv(folder / "aggregate.csv", aggregate(rows, curve, group_of)),
    ]
    if leads := comparisons(rows, curve, group_of):
        paths.append(write_csv(folder / "comparisons.csv", leads))
    found = failures(folder)
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
        _, curve, label, _ = EXPERIMENTS[name]
        figure = learning_grid(folder / SCORES, curve=curve, label=label)
    return save(figure, folder / name)
