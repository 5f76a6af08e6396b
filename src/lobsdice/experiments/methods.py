"""All methods on all kinds of tasks, in one table:

    endings/       the worlds that end in success or failure (`experiment endings`)
    mixtures/      logs that are hard to learn from (`experiment mixtures`)
    mujoco/        the tasks like the paper's (`experiment mujoco`)
    methods.csv    the mean of each method over each kind of task
    leads.csv      the lead of LobsDICE over each other method, paired over tasks
    tables.md      the means to read
    methods.png, .svg    the figure

Values are scores: 0 is the random policy and 100 the expert. In the worlds that end they are per
cent of the demonstrator's success rate. docs/experiments/methods.md has the protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lobsdice.data.files import atomic, write_csv
from lobsdice.executors.job import Executor
from lobsdice.experiments import statistics
from lobsdice.experiments.comparisons import ALL, cells, compare, over_tasks, stack
from lobsdice.experiments.control import experiment as control
from lobsdice.experiments.control.grid import Grid, Plan, check_names, task_of
from lobsdice.experiments.control.trials import SCORES
from lobsdice.experiments.endings import experiment as endings
from lobsdice.experiments.endings.settings import Choice, Settings
from lobsdice.experiments.endings.tables import last_values
from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.methods import methods as plot_methods
from lobsdice.training.folder import read_rows

#: The kinds of tasks, the most telling first.
KINDS = ("endings", "mixtures", "mujoco")
#: Methods that learn from demonstrations without actions, and cloning of all logs. IQ-Learn is left
#: out, because without actions it learns nothing of the expert.
METHODS = (
    "lobsdice",
    "seabo",
    "otr",
    "tailo",
    "nearest_trajectory",
    "recoilfo",
    "dilo",
    "smodice",
    "demodicefo",
    "opolo",
    "bco",
    "rce",
    "bc",
)
FIRST = "lobsdice"

#: The value of each seed, by the name of its task.
Tasks = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Extent:
    """The part to run. The same command continues and extends the experiments of a part."""

    kinds: tuple[str, ...] = KINDS
    """Kinds of tasks: endings, mixtures, mujoco."""
    algorithms: tuple[str, ...] = ()
    """Methods (default: all that learn from demonstrations without actions, and bc)."""
    worlds: tuple[str, ...] = Choice().worlds
    """Worlds that end."""
    env: tuple[str, ...] = Grid().env
    """Environments of the other kinds."""
    seeds: int = 5
    """Runs with the seeds 0, 1, ..., each with demonstrations and logs of its own."""

    steps: int = 100_000
    """Gradient steps of a run."""
    endings_steps: int = 20_000
    """Gradient steps of a run in the worlds that end."""
    episodes: int = 100
    """Episodes of an evaluation in the worlds that end; elsewhere ten."""
    batch_size: int = 512
    """Batch size: rows of each part of the data in a step."""
    set: tuple[str, ...] = ()
    """Hyperparameters in the worlds that end, such as width=64, for a small part of the table."""

    def __post_init__(self):
        check_names("kind of tasks", self.kinds, KINDS)

    def methods(self) -> tuple[str, ...]:
        """The methods to run."""
        from lobsdice.algorithms import ALGORITHMS

        return self.algorithms or tuple(name for name in METHODS if name in ALGORITHMS)


def experiment(extent: Extent, folder: Path, *, executor: Executor | None = None) -> list[Path]:
    """Train the runs that are missing, then write the tables of all runs in the folder.

    Fleets train where the executor says; without one, in this process.
    """
    for kind in extent.kinds:
        if kind == "endings":
            choice = Choice(worlds=extent.worlds, algorithms=extent.methods(), seeds=extent.seeds)
            endings.experiment(
                choice, _settings(extent), folder / kind, executor=executor, exact=False
            )
        else:
            sizes = (500,) if kind == "mixtures" else Grid().sizes
            grid = Grid(extent.env, extent.methods(), extent.seeds, sizes)
            plan = Plan(steps=extent.steps, batch_size=extent.batch_size)
            control.experiment(kind, grid, plan, folder / kind, executor=executor)
    return write_tables(folder)


def _settings(extent: Extent) -> Settings:
    return Settings(
        steps=extent.endings_steps,
        every=max(1, extent.endings_steps // 2),
        episodes=extent.episodes,
        batch_size=extent.batch_size,
        set=extent.set,
    )


def write_tables(folder: Path) -> list[Path]:
    """Write the tables of all runs in the folder."""
    found, groups = collect(folder)
    text = folder / "tables.md"
    with atomic(text) as temporary:
        temporary.write_text(markdown(means(found, groups)))
    table = write_csv(folder / "methods.csv", means(found, groups))
    paths = [table, write_csv(folder / "leads.csv", leads(found, groups)), text]
    return [*paths, *common.save(plot_methods(table), folder / "methods")]


def collect(folder: Path) -> tuple[dict[str, Tasks], dict[str, list[str]]]:
    """The last value of each run by method, task and seed, and the tasks of each kind."""
    found: dict[str, Tasks] = {}
    groups: dict[str, list[str]] = {}
    for kind in (kind for kind in KINDS if (folder / kind / SCORES).exists()):
        rows = read_rows(folder / kind / SCORES)
        part = _shares(rows) if kind == "endings" else _scores(kind, rows)
        for method, tasks in part.items():
            found.setdefault(method, {}).update(tasks)
        names = dict.fromkeys(task for tasks in part.values() for task in tasks)
        groups[kind] = list(names)
    if len(groups) > 1:
        groups[ALL] = [task for tasks in groups.values() for task in tasks]
    return found, groups


def _shares(rows: Sequence[Any]) -> dict[str, Tasks]:
    return {
        arm: {w: {seed: 100 * x for seed, x in seeds.items()} for w, seeds in worlds.items()}
        for arm, worlds in last_values(rows, "share").items()
    }


def _scores(kind: str, rows: Sequence[Any]) -> dict[str, Tasks]:
    found: dict[str, Tasks] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        task = f"{kind}: {task_of(row)}"
        found.setdefault(row["algorithm"], {}).setdefault(task, {})[row["seed"]] = row["score"]
    return found


def means(found: Mapping[str, Tasks], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A row for each kind of tasks and method that has all of its tasks."""
    table = []
    for group, tasks in groups.items():
        for method, mine in found.items():
            if not set(tasks) <= set(mine):
                continue
            values = stack(mine, tasks)
            line = {"kind": group, "method": method, "tasks": len(tasks), "seeds": len(values)}
            mean = cells("mean", statistics.interval(values, statistics.mean), 1)
            worst = {"worst_task": f"{values.mean(axis=0).min():.1f}"}
            table.append(line | mean | over_tasks("mean_tasks", values, 1) | worst)
    return table


def leads(found: Mapping[str, Tasks], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The lead of LobsDICE over each other method in each kind of tasks."""
    if FIRST not in found:
        return []
    return [
        {"kind": lead.group, "method": lead.other} | lead.columns(1)
        for lead in compare(found, FIRST, groups)
    ]


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The means and their intervals over seeds: a row for each method, a column for each kind."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    cell = {
        (row["method"], row["kind"]): f"{row['mean']} ({row['mean_low']} to {row['mean_high']})"
        for row in rows
    }
    lines = [["method", *kinds], ["---"] * (1 + len(kinds))]
    for method in dict.fromkeys(row["method"] for row in rows):
        lines.append([f"`{method}`", *(cell.get((method, kind), "") for kind in kinds)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
