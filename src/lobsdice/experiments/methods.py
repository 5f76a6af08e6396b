"""All methods on all kinds of tasks, in one table:

    endings/       the worlds that end in success or failure (`experiment endings`)
    mixtures/      logs that are hard to learn from (`experiment mixtures`)
    mujoco/        the tasks like the paper's (`experiment mujoco`)
    methods.csv    the mean of each method over each kind of task
    tasks.csv      the mean of each method in each task
    leads.csv      the lead of LobsDICE over each other method, paired over tasks
    tables.md      the means to read, and the mean in each task
    methods.png, .svg    the figure

Values are scores: 0 is the random policy and 100 the expert. In the worlds that end they are per
cent of the demonstrator's success rate. docs/experiments/methods.md has the protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from lobsdice.data.files import atomic, write_csv
from lobsdice.executors.job import Executor
from lobsdice.experiments import statistics
from lobsdice.experiments.comparisons import ALL, cells, compare, over_tasks, seeds_of, stack
from lobsdice.experiments.control import experiment as control
from lobsdice.experiments.control.grid import Grid, check_names, task_of
from lobsdice.experiments.control.trials import SCORES
from lobsdice.experiments.endings import experiment as endings
from lobsdice.experiments.endings.settings import SUCCESSFUL, Choice
from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.methods import methods as plot_methods
from lobsdice.experiments.runs import Runs
from lobsdice.training.folder import read_rows

#: The kinds of tasks, the most telling first.
KINDS = ("endings", "mixtures", "mujoco")
FIRST = "lobsdice"
#: Methods that learn from demonstrations without actions, and cloning of all logs, in families.
#: LobsDICE is compared with each; tests are corrected for the number of methods in a family.
#: IQ-Learn is left out, because without actions it learns nothing of the expert.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "later": ("seabo", "otr", "tailo", "nearest_trajectory", "recoilfo", "dilo"),
    "earlier": ("smodice", "demodicefo", "opolo", "bco", "rce", "bc"),
}
METHODS = (FIRST, *(name for names in FAMILIES.values() for name in names))
#: The family of all others.
OTHERS = "others"
#: More rows of the worlds that end: an oracle, and IQL's methods with ends that repeat for ever.
ENDING_ARMS = ("seabo:absorb=true", "otr:absorb=true", SUCCESSFUL)

#: The value of each seed, by the name of its task.
Tasks = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Extent(Runs):
    """The part to run. The same command continues and extends the experiments of a part."""

    kinds: tuple[str, ...] = KINDS
    """Kinds of tasks: endings, mixtures, mujoco."""
    algorithms: tuple[str, ...] = ()
    """Methods (default: all that learn from demonstrations without actions, and bc). In the worlds
    that end, hyperparameters may follow a name, as in seabo:absorb=true."""
    worlds: tuple[str, ...] = Choice().worlds
    """Worlds that end."""
    env: tuple[str, ...] = Grid().env
    """Environments of the other kinds."""
    sizes: tuple[int, ...] = ()
    """Numbers of medium and of random episodes in the logs of the other kinds, one mixture for each
    (default: 100, 500 and 1000 in mujoco, 500 in mixtures)."""
    expert: int | None = None
    """Expert episodes in the logs of the other kinds (default: 100, and 400 for halfcheetah)."""
    conditions: tuple[str, ...] = Grid().conditions
    """Conditions of the mixtures: few-20, few-5, none, fragments, noisy."""
    beside: tuple[Path, ...] = ()
    """Folders of parts of this experiment that have other settings, such as fewer seeds. The tables
    have their runs as well, each folder as a kind of tasks of its own name."""

    def __post_init__(self):
        check_names("kind of tasks", self.kinds, KINDS)

    def methods(self, kind: str) -> tuple[str, ...]:
        """The methods to run in a kind of tasks."""
        return self.algorithms or (METHODS + ENDING_ARMS if kind == "endings" else METHODS)


def experiment(extent: Extent, folder: Path, *, executor: Executor | None = None) -> list[Path]:
    """Train the runs that are missing, then write the tables of all runs in the folder.

    Fleets train where the executor says; without one, in this process.
    """
    for kind in extent.kinds:
        if kind == "endings":
            choice = Choice(
                worlds=extent.worlds, algorithms=extent.methods(kind), seeds=extent.seeds
            )
            endings.experiment(
                choice, extent.settings(), folder / kind, executor=executor, exact=False
            )
        else:
            control.experiment(
                kind, _grid_of(extent, kind), extent.plan(), folder / kind, executor=executor
            )
    return write_tables(folder, extent.beside)


def _grid_of(extent: Extent, kind: str) -> Grid:
    sizes = extent.sizes or ((500,) if kind == "mixtures" else Grid().sizes)
    return Grid(
        extent.env,
        extent.methods(kind),
        extent.seeds,
        sizes,
        expert=extent.expert,
        conditions=extent.conditions,
    )


def write_tables(folder: Path, beside: Sequence[Path] = ()) -> list[Path]:
    """Write the tables of all runs in the folder, and of those in the folders beside it."""
    found, groups = collect(folder, beside)
    best, _ = collect(folder, beside, best=True)
    rows, tasks = means(found, groups), by_task(found, best)
    text = folder / "tables.md"
    with atomic(text) as temporary:
        temporary.write_text(f"{markdown(rows)}\n{tasks_markdown(tasks)}")
    table, each = write_csv(folder / "methods.csv", rows), write_csv(folder / "tasks.csv", tasks)
    paths = [table, each, write_csv(folder / "leads.csv", leads(found, groups)), text]
    return [*paths, *common.save(plot_methods(table, each), folder / "methods")]


def collect(
    folder: Path, beside: Sequence[Path] = (), *, best: bool = False
) -> tuple[dict[str, Tasks], dict[str, list[str]]]:
    """The value of each run by method, task and seed, and the tasks of each kind.

    It is the last one, or with `best` the highest of all evaluations. The tasks of a folder beside
    the first are a kind of the name of that folder.
    """
    found: dict[str, Tasks] = {}
    groups: dict[str, list[str]] = {}
    for where, kind in product((folder, *beside), KINDS):
        runs = _read(kind, where / kind / SCORES, best)
        for (method, task, seed), value in runs.items():
            found.setdefault(method, {}).setdefault(task, {})[seed] = value
        tasks = groups.setdefault(kind if where == folder else where.name, [])
        tasks += [task for task in dict.fromkeys(t for _, t, _ in runs) if task not in tasks]
    groups = {name: tasks for name, tasks in groups.items() if tasks}
    if len(groups) > 1:
        groups[ALL] = [task for tasks in groups.values() for task in tasks]
    return found, groups


def _read(kind: str, path: Path, best: bool) -> dict[tuple[str, str, int], float]:
    """The value of each run of a table, by method, task and seed; none if there is no table."""
    runs: dict[tuple[str, str, int], float] = {}
    for row in sorted(read_rows(path), key=lambda row: row["step"]) if path.exists() else ():
        method, task, value = _value(kind, row)
        run = method, task, row["seed"]
        runs[run] = max(value, runs.get(run, value)) if best else value
    return runs


def _value(kind: str, row: Mapping[str, Any]) -> tuple[str, str, float]:
    """The method, the task and the value of an evaluation."""
    if kind == "endings":
        return row["arm"], row["world"], 100 * row["share"]
    return row["algorithm"], f"{kind}: {task_of(row)}", row["score"]


def means(found: Mapping[str, Tasks], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A row for each kind of tasks and method that has all of its tasks."""
    table = []
    for group, tasks in groups.items():
        for method, mine in found.items():
            if not set(tasks) <= set(mine):
                continue
            values = stack(mine, tasks)
            line = {"kind": group, "method": method, "tasks": len(tasks), "seeds": seeds_of(values)}
            mean = cells("mean", statistics.interval(values, statistics.mean), 1)
            worst = {"worst_task": f"{values.mean(axis=0).min():.1f}"}
            table.append(line | mean | over_tasks("mean_tasks", values, 1) | worst)
    return table


def leads(found: Mapping[str, Tasks], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The lead of LobsDICE over each other method in each kind of tasks, by family."""
    if FIRST not in found:
        return []
    table = []
    for family in (*FAMILIES, OTHERS):
        mine = {name: x for name, x in found.items() if name == FIRST or family_of(name) == family}
        table += [
            {"kind": lead.group, "family": family, "method": lead.other} | lead.columns(1)
            for lead in compare(mine, FIRST, groups)
        ]
    return table


def family_of(method: str) -> str:
    """The family of a method."""
    return next((name for name, methods in FAMILIES.items() if method in methods), OTHERS)


def by_task(found: Mapping[str, Tasks], best: Mapping[str, Tasks]) -> list[dict[str, Any]]:
    """A row for each task and method: the mean of the last policies, and of each run's best."""
    table = []
    for task in dict.fromkeys(task for tasks in found.values() for task in tasks):
        for method in (name for name, tasks in found.items() if task in tasks):
            values, highest = (stack(x[method], [task]) for x in (found, best))
            line = {"task": task, "method": method, "seeds": seeds_of(values)}
            line |= cells("mean", statistics.interval(values, statistics.mean), 1)
            table.append(
                line | {"least": f"{values.min():.1f}", "mean_best": f"{highest.mean():.1f}"}
            )
    return table


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The means and their intervals over seeds: a row for each method, a column for each kind."""
    return _grid(
        {
            (row["method"], row["kind"]): f"{row['mean']} ({row['mean_low']} to {row['mean_high']})"
            for row in rows
        }
    )


def tasks_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The means in each task: a row for each method, a column for each task."""
    return _grid({(row["method"], row["task"]): row["mean"] for row in rows})


def _grid(cell: Mapping[tuple[str, str], str]) -> str:
    columns = list(dict.fromkeys(column for _, column in cell))
    lines = [["method", *columns], ["---"] * (1 + len(columns))]
    for method in dict.fromkeys(method for method, _ in cell):
        lines.append([f"`{method}`", *(cell.get((method, column), "") for column in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
