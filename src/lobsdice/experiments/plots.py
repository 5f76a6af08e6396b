"""Figures of tables. Nothing here trains, nor imports anything that does."""

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator

from lobsdice.data.files import atomic
from lobsdice.errors import LobsDICEError

Rows = list[dict[str, str]]
FORMATS = ("png", "svg")
#: The same table gives the same bytes; text stays text.
STYLE: Any = {
    "svg.hashsalt": "lobsdice",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
#: Okabe and Ito's colours, which colour-blind readers can tell apart, and a marker each.
LOOKS = {
    "BC": ("#7f7f7f", "v"),
    "SMODICE": ("#56b4e9", "s"),
    "BCO": ("#e69f00", "^"),
    "DemoDICEfO": ("#cc79a7", "D"),
    "OPOLO": ("#009e73", "P"),
    "LobsDICE": ("#0072b2", "o"),
}
#: LobsDICE with the smaller of two weights α.
SMALL_ALPHA = ("#d55e00", "o")
COUNTER_CLOCKWISE, CLOCKWISE = "#0072b2", "#d55e00"


def read(path: str | Path, columns: set[str]) -> Rows:
    """The rows of a CSV file, which must have some columns."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    missing = columns - set(rows[0] if rows else ())
    if missing:
        raise LobsDICEError(f"{path}: no column {', '.join(sorted(missing))}")
    return rows


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG."""
    paths = [stem.with_suffix(f".{name}") for name in FORMATS]
    for path, name in zip(paths, FORMATS, strict=True):
        metadata = {"Date": None} if name == "svg" else {}
        with atomic(path) as temporary, matplotlib.rc_context(STYLE):
            figure.savefig(temporary, format=name, dpi=160, metadata=metadata)
    return paths


def save_random_mdp(table: Path, folder: Path) -> list[Path]:
    """The figure of the random-MDP table on a linear axis, as the paper's, and on a logarithmic."""
    linear, logarithmic = random_mdp(table), random_mdp(table, logarithmic=True)
    return [
        *save(linear, folder / "random_mdp"),
        *save(logarithmic, folder / "random_mdp_log"),
    ]


@dataclass(frozen=True)
class Line:
    """One curve of a figure."""

    label: str
    colour: str
    marker: str
    rows: Rows


def random_mdp(table: str | Path, *, logarithmic: bool = False) -> Figure:
    """Total variation over the offline trajectories; a row of panels per β, a column per N_E."""
    rows = read(table, {"beta", "n_expert", "n_offline", "algorithm", "alpha", "mean"})
    betas, experts = _distinct(rows, "beta"), _distinct(rows, "n_expert")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.6 * len(experts) + 0.6, 2.1 * len(betas) + 0.9))
        axes = figure.subplots(len(betas), len(experts), sharex=True, sharey=True, squeeze=False)
        for i, beta in enumerate(betas):
            for j, expert in enumerate(experts):
                here = [r for r in rows if (r["beta"], r["n_expert"]) == (beta, expert)]
                for line in lines(here):
                    _draw(axes[i, j], line)
                _dress(axes[i, j], logarithmic)
        _title(axes, betas, experts)
        _legend(figure)
        _arrange(figure)
    return figure


def _arrange(figure: Figure) -> None:
    """Lay a figure out, once for all formats that it is saved in."""
    figure.set_layout_engine("constrained")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def lines(rows: Rows) -> list[Line]:
    """The curves of one panel, in the order of the table; a second α has a look of its own."""
    found: list[Line] = []
    for algorithm, alpha in dict.fromkeys((row["algorithm"], row["alpha"]) for row in rows):
        own = [row for row in rows if (row["algorithm"], row["alpha"]) == (algorithm, alpha)]
        again = any(line.rows[0]["algorithm"] == algorithm for line in found)
        several = len({row["alpha"] for row in rows if row["algorithm"] == algorithm}) > 1
        label = f"{algorithm}, α = {float(alpha):g}" if several else algorithm
        found.append(Line(label, *(SMALL_ALPHA if again else LOOKS[algorithm]), own))
    return found


def _distinct(rows: Rows, column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def _numbers(rows: Rows, column: str) -> np.ndarray:
    return np.array([float(row[column]) for row in rows])


def _draw(axes: Axes, line: Line) -> None:
    x, mean = _numbers(line.rows, "n_offline"), _numbers(line.rows, "mean")
    error = _numbers(line.rows, "standard_error")
    style = {"color": line.colour, "marker": line.marker, "markersize": 3.5, "linewidth": 1.3}
    axes.plot(x, mean, label=line.label, **style)
    axes.fill_between(x, mean - error, mean + error, color=line.colour, alpha=0.25, linewidth=0)


def _dress(axes: Axes, logarithmic: bool) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10, numticks=10))
    axes.xaxis.set_minor_locator(NullLocator())
    if logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _title(axes: np.ndarray, betas: list[str], experts: list[str]) -> None:
    for panel, expert in zip(axes[0], experts, strict=True):
        panel.set_title(f"{int(expert):,} expert trajectories", fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel("offline trajectories")
    for panel, beta in zip(axes[:, 0], betas, strict=True):
        panel.set_ylabel(f"β = {float(beta):g}\ntotal variation")


def circle(table: str | Path) -> Figure:
    """Policies on a ring, as arrows as strong as they are likely; a row of panels per data set."""
    rows = read(table, {"data", "matched", "state", "counter_clockwise", "pair_total_variation"})
    data, matched = _distinct(rows, "data"), _distinct(rows, "matched")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.6 * len(matched) + 0.3, 2.6 * len(data) + 0.5))
        axes = figure.subplots(len(data), len(matched), squeeze=False)
        for i, source in enumerate(data):
            for j, match in enumerate(matched):
                here = [r for r in rows if (r["data"], r["matched"]) == (source, match)]
                _draw_ring(axes[i, j], here)
                axes[i, j].set_title(match if i == 0 else "", fontsize=10)
            axes[i, 0].set_ylabel(f"data goes {source}", fontsize=10)
        figure.suptitle("The expert always goes counter-clockwise", fontsize=11)
        _arrange(figure)
    return figure


def _draw_ring(axes: Axes, rows: Rows) -> None:
    chances = _numbers(rows, "counter_clockwise")
    angles = 2 * np.pi * np.arange(len(rows)) / len(rows)
    nodes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for here, chance in enumerate(chances):
        _draw_arrow(axes, nodes, here, here + 1, chance, COUNTER_CLOCKWISE)
        _draw_arrow(axes, nodes, here, here - 1, 1 - chance, CLOCKWISE)
    axes.scatter(*nodes.T, s=70, color="white", edgecolor="#444444", linewidth=1, zorder=3)
    distance = float(rows[0]["pair_total_variation"])
    text = f"{np.mean(chances):.0%}\ncounter-clockwise\n\ntotal variation\nof pairs {distance:.2f}"
    axes.text(0, 0, text, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _draw_arrow(axes: Axes, nodes: np.ndarray, here: int, to: int, chance: float, colour: str):
    """An arrow to a neighbour: outside the ring counter-clockwise, inside it clockwise."""
    if chance < 0.005:  # would be drawn as a bare head
        return
    arrow = FancyArrowPatch(
        tuple(nodes[here]),
        tuple(nodes[to % len(nodes)]),
        connectionstyle="arc3,rad=0.45",
        arrowstyle="-|>",
        mutation_scale=5 + 6 * chance,
        shrinkA=5,
        shrinkB=5,
        linewidth=0.4 + 1.8 * chance,
        color=colour,
        alpha=0.25 + 0.75 * chance,
    )
    axes.add_patch(arrow)


#: Colours of curves, in their order.
CURVES = (
    "#0072b2",
    "#7f7f7f",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#8c564b",
    "#000000",
    "#9467bd",
    "#bcbd22",
)
#: Algorithms by their names in tables.
ALGORITHM_COLOURS = {name.lower(): colour for name, (colour, _) in LOOKS.items()} | {
    "iqlearn": "#d55e00",
    "rce": "#8c564b",
    "demodice": "#9467bd",
    "lobsdice_mu": "#000000",
}


def learning_curves(
    panels: Mapping[str, Mapping[str, str | Path]],
    *,
    column: str = "score",
    levels: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Mean and standard error over the runs, step by step; one panel for each name of `panels`.

    A panel maps the label of a curve to the metrics.csv of a run's folder. `levels` are horizontal
    lines to compare with.
    """
    colours = _colours(dict.fromkeys(label for curves in panels.values() for label in curves))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * len(panels) + 0.4, 2.8), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for here, (title, curves) in zip(axes, panels.items(), strict=True):
            for label, table in curves.items():
                _draw_curve(here, read(table, {"step", column}), column, label, colours[label])
            for label, level in levels.items():
                here.axhline(level, color="black", linewidth=0.8, linestyle=":")
                place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
                here.annotate(label, (1, level), (0, 2), ha="right", fontsize=7, **place)
            here.set_title(title)
            here.set_xlabel("gradient steps")
            here.xaxis.set_major_locator(MaxNLocator(4))
            here.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes[0].set_ylabel(column)
        _legend(figure)
    return figure


def _colours(names: Collection[str]) -> dict[str, str]:
    """Of curves: an algorithm has the same in every figure, others have those that are left."""
    colours = {name: ALGORITHM_COLOURS[name] for name in names if name in ALGORITHM_COLOURS}
    left = cycle([colour for colour in CURVES if colour not in colours.values()])
    return {name: colours.get(name) or next(left) for name in names}


def _legend(figure: Figure, columns: int | None = None) -> None:
    """Name the curves of all panels, above them: there need be none that has every curve."""
    found = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes)
    named = {label: handle for pairs in found for handle, label in pairs}
    if not named:
        return
    lines = ceil(len(named) / (columns or len(named)))
    ncols = ceil(len(named) / lines)
    figure.legend(
        named.values(), named.keys(), loc="outside upper center", ncols=ncols, frameon=False
    )


def _draw_curve(axes: Axes, rows: Rows, column: str, label: str, colour: str) -> None:
    steps = sorted({int(row["step"]) for row in rows})
    groups = [_numbers([r for r in rows if int(r["step"]) == step], column) for step in steps]
    mean = np.array([group.mean() for group in groups])
    error = np.array([standard_error(group) for group in groups])
    axes.plot(steps, mean, color=colour, linewidth=1.3, label=label)
    axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)


def standard_error(values: np.ndarray) -> float:
    """Of the mean; zero for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


#: The columns of a table of scores that tell tasks apart.
TASK = ("environment", "expert", "medium", "random")


def learning_grid(
    table: str | Path, *, curve: str = "algorithm", column: str = "score", label: str = "{}"
) -> Figure:
    """Mean and standard error over seeds: a row of panels for each environment, one per mixture.

    There is a curve for each value of the table's column `curve`, named by `label`.
    """
    rows = [row for row in read(table, {*TASK, curve, column, "step"}) if row[column] != ""]
    panels, across = _panels(rows)
    colours = _colours(_distinct(rows, curve))
    with matplotlib.rc_context(STYLE):
        wide = max(2.7 * across + 0.5, 5.0)  # so that the legend finds its place
        figure = Figure(figsize=(wide, 2.2 * len(panels) + 0.9), layout="constrained")
        # One scale for all scores, from nothing learned: a panel of its own scale magnifies noise.
        alike = column == "score"
        axes = figure.subplots(len(panels), across, squeeze=False, sharex=True, sharey=alike)
        for line, tasks in zip(axes, panels.values(), strict=True):
            for here, task in zip(line, tasks, strict=False):
                _draw_task(here, task, rows, curve, column, colours, label)
            for empty in line[len(tasks) :]:
                empty.set_axis_off()
        if alike:
            axes[0, 0].set_ylim(bottom=min(0.0, axes[0, 0].get_ylim()[0]))
        _legend(figure, columns=int(wide / 1.2))
        figure.supylabel("normalised score" if column == "score" else column, fontsize=9)
        steps = max(int(row["step"]) for row in rows)
        seeds = len(_distinct(rows, "seed"))
        figure.supxlabel(f"gradient steps ({steps:,} in all, {seeds} seeds)", fontsize=9)
    return figure


def _panels(rows: Rows) -> tuple[dict[str, list[tuple[str, ...]]], int]:
    """For each environment its tasks, and the largest number of them."""
    tasks = list(dict.fromkeys(tuple(row[name] for name in TASK) for row in rows))
    panels = {name: [t for t in tasks if t[0] == name] for name in _distinct(rows, "environment")}
    return panels, max(map(len, panels.values()))


def _draw_task(axes: Axes, task, rows: Rows, curve: str, column: str, colours, label: str) -> None:
    mine = [row for row in rows if tuple(row[name] for name in TASK) == task]
    for value, colour in colours.items():
        found = [row for row in mine if row[curve] == value]
        if found:
            _draw_curve(axes, found, column, label.format(value), colour)
    if column == "score":
        axes.axhline(100, color="black", linewidth=0.8, linestyle=":")
    axes.set_title(f"{task[0]} ({', '.join(task[1:])})", fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def last_bars(table: str | Path, *, column: str, label: str) -> Figure:
    """The last values of a column: a panel for each environment, a bar for each mixture."""
    rows = [row for row in read(table, {*TASK, column, "step"}) if row[column] != ""]
    steps = max(int(row["step"]) for row in rows)
    panels, across = _panels(rows)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.2 * len(panels) + 0.4, 2.4), layout="constrained")
        for here, (name, tasks) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            last = [r for r in rows if int(r["step"]) == steps]
            groups = [
                _numbers([r for r in last if tuple(r[c] for c in TASK) == task], column)
                for task in tasks
            ]
            here.bar(
                [", ".join(task[2:]) for task in tasks],
                [group.mean() for group in groups],
                yerr=[standard_error(group) for group in groups],
                color=CURVES[0],
                width=0.6,
            )
            here.set_title(f"{name} ({tasks[0][1]}, Y, Z)", fontsize=9)
            here.tick_params(axis="x", labelsize=7)
            here.set_xlim(-0.6, across - 0.4)
        figure.supylabel(label, fontsize=9)
        figure.supxlabel(f"Y, Z (after {steps:,} gradient steps)", fontsize=9)
    return figure
