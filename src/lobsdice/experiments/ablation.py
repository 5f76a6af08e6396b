"""The worth of each departure from the paper, on worlds that end and on MuJoCo:

    endings/        the worlds that end in success or failure (`experiment endings`)
    mujoco/         tasks like the paper's (`experiment mujoco`)
    ablation.csv    the worth of each departure, paired over tasks
    means.csv       the mean of each arm over each kind of tasks
    tasks.csv       the mean of each arm in each task
    tables.md       worth and means to read
    ablation.png, .svg    the figure

An arm is LobsDICE with its defaults (`lobsdice`), with one departure undone (`lobsdice:blur=0`),
with the paper's settings (`lobsdice:paper`), or with these and one departure made
(`lobsdice:paper,blur=0.5`). So a departure has a worth among all others, and one alone. Values are
scores as in `experiments.methods`. docs/experiments/ablation.md has the protocol.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.data.files import atomic, write_csv
from lobsdice.errors import LobsDICEError
from lobsdice.executors.job import Executor
from lobsdice.experiments.arms import PAPER, published
from lobsdice.experiments.comparisons import compare
from lobsdice.experiments.control import experiment as control
from lobsdice.experiments.control.grid import Grid, check_names
from lobsdice.experiments.endings import experiment as endings
from lobsdice.experiments.endings.settings import Choice
from lobsdice.experiments.methods import Tasks, by_task, collect, markdown, means
from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.ablation import ablation as plot_ablation
from lobsdice.experiments.runs import Runs

#: The kinds of tasks.
KINDS = ("endings", "mujoco")
DEFAULTS = "lobsdice"
#: The two places of a departure: among all others, and alone.
PLACES = {"among": "among all others", "alone": "alone"}


class Departure(NamedTuple):
    """A setting whose default differs from the paper."""

    name: str
    default: Any
    paper: Any

    @property
    def undone(self) -> str:
        """The arm of the defaults without it."""
        return f"{DEFAULTS}:{self.name}={_text(self.paper)}"

    @property
    def alone(self) -> str:
        """The arm of the paper's settings with it."""
        return f"{DEFAULTS}:{PAPER},{self.name}={_text(self.default)}"

    def __str__(self) -> str:
        return f"{self.name}: {_text(self.paper)} to {_text(self.default)}"


@dataclass(frozen=True)
class Extent(Runs):
    """The part to run. The same command continues and extends the experiments of a part."""

    kinds: tuple[str, ...] = KINDS
    """Kinds of tasks: endings, mujoco."""
    departures: tuple[str, ...] = ()
    """Departures from the paper, by the names of their settings, such as averaged (default: all
    of them)."""
    places: tuple[str, ...] = tuple(PLACES)
    """Places of a departure: among all others (the defaults without it), and alone (the paper's
    settings with it)."""
    worlds: tuple[str, ...] = Choice().worlds
    """Worlds that end."""
    env: tuple[str, ...] = Grid().env
    """MuJoCo environments."""
    sizes: tuple[int, ...] = (500,)
    """Numbers of medium and of random episodes in the logs of MuJoCo, one mixture for each."""

    def __post_init__(self):
        check_names("kind of tasks", self.kinds, KINDS)
        check_names("place of a departure", self.places, PLACES)

    def arms(self) -> tuple[str, ...]:
        """The arms to run."""
        found = departures()
        check_names("departure from the paper", self.departures, [one.name for one in found])
        chosen = [one for one in found if one.name in (self.departures or (one.name,))]
        undone = [one.undone for one in chosen] if "among" in self.places else []
        alone = [one.alone for one in chosen] if "alone" in self.places else []
        return (DEFAULTS, *undone, f"{DEFAULTS}:{PAPER}", *alone)


def departures() -> list[Departure]:
    """All settings whose defaults differ from the paper, each on its own."""
    from lobsdice.algorithms import ALGORITHMS
    from lobsdice.data.recordings import Preparation
    from lobsdice.training.engine import Options

    usual = (ALGORITHMS[DEFAULTS](), Options(), Preparation())
    return [
        Departure(name, next(getattr(one, name) for one in usual if hasattr(one, name)), paper)
        for name, paper in published(DEFAULTS).items()
    ]


def experiment(extent: Extent, folder: Path, *, executor: Executor | None = None) -> list[Path]:
    """Train the runs that are missing, then write the tables of all runs in the folder.

    Fleets train where the executor says; without one, in this process.
    """
    arms = extent.arms()
    for kind in extent.kinds:
        if kind == "endings":
            choice = Choice(worlds=extent.worlds, algorithms=arms, seeds=extent.seeds)
            endings.experiment(
                choice, extent.settings(), folder / kind, executor=executor, exact=False
            )
        else:
            grid = Grid(extent.env, arms, extent.seeds, extent.sizes)
            control.experiment(kind, grid, extent.plan(), folder / kind, executor=executor)
    return write_tables(folder)


def write_tables(folder: Path) -> list[Path]:
    """Write the tables of all runs in the folder."""
    found, groups = collect(folder)
    best, _ = collect(folder, best=True)
    rows, table = means(found, groups), worth(found, groups)
    if not table:
        raise LobsDICEError(f"{folder} has no departure in the tasks of its counterpart")
    text = folder / "tables.md"
    with atomic(text) as temporary:
        temporary.write_text(f"{worth_markdown(table)}\n{markdown(rows)}")
    numbers = write_csv(folder / "ablation.csv", table)
    paths = [numbers, write_csv(folder / "means.csv", rows)]
    paths += [write_csv(folder / "tasks.csv", by_task(found, best)), text]
    return [*paths, *common.save(plot_ablation(numbers), folder / "ablation")]


def worth(found: Mapping[str, Tasks], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A row for each kind of tasks, place and departure: with it minus without it.

    Tests are corrected for the number of departures in a place.
    """
    table = []
    for place in PLACES:
        arms = {str(one): _arm(one, place) for one in departures() if _arm(one, place) in found}
        first, sign = (DEFAULTS, 1) if place == "among" else (f"{DEFAULTS}:{PAPER}", -1)
        if first not in found:
            continue
        signed = {name: _times(sign, found[name]) for name in (first, *arms.values())}
        names = {arm: name for name, arm in arms.items()}
        table += [
            {"kind": lead.group, "place": place, "departure": names[lead.other]} | lead.columns(1)
            for lead in compare(signed, first, groups)
        ]
    return table


def _arm(departure: Departure, place: str) -> str:
    return departure.undone if place == "among" else departure.alone


def _times(sign: int, tasks: Tasks) -> Tasks:
    return {task: {seed: sign * x for seed, x in seeds.items()} for task, seeds in tasks.items()}


def worth_markdown(rows: Iterable[Mapping[str, Any]]) -> str:
    """The worth of each departure: a row for each, a column for each kind of tasks and place."""
    rows = list(rows)
    columns = list(dict.fromkeys((row["kind"], row["place"]) for row in rows))
    cells = {
        (row["departure"], row["kind"], row["place"]): f"{row['lead']} ({row['lead_tasks_low']} to "
        f"{row['lead_tasks_high']}), p = {row['adjusted_p']}"
        for row in rows
    }
    head = ["departure", *(f"{kind}, {PLACES[place]}" for kind, place in columns)]
    lines = [head, ["---"] * len(head)]
    for name in dict.fromkeys(row["departure"] for row in rows):
        lines.append([name, *(cells.get((name, *column), "") for column in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
