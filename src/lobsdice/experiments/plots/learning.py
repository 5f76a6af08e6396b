"""Figures of tables of scores: learning curves, and bars of the last step."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from lobsdice.environments.tasks.table import family
from lobsdice.experiments.control.grid import Task, task_of
from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.common import Rows, distinct, looks, numbers, read

#: The columns that every table of scores has.
TASK = ("environment", "expert", "medium", "random")


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean; zero for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def learning_curves(
    panels: Mapping[str, Mapping[str, str | Path]],
    *,
    column: str = "score",
    levels: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Mean and standard error over the runs at each step; one panel for each name of `panels`.

    A panel maps the label of a curve to the metrics.csv of a run folder. `levels` are horizontal
    lines to compare with. examples/demo.py and results/neural draw with it; no command does.
    """
    styles = looks(dict.fromkeys(label for curves in panels.values() for label in curves))
    with matplotlib.rc_context(common.STYLE):
        figure = Figure(figsize=(3.4 * len(panels) + 0.4, 2.8), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for here, (title, curves) in zip(axes, panels.items(), strict=True):
            for label, table in curves.items():
                rows = read(table, {"step", column})
                _draw_curve(here, rows, column, label, styles[label].colour)
            _draw_levels(here, levels)
            here.set_title(title)
            here.set_xlabel("gradient steps")
            _format_steps(here)
        axes[0].set_ylabel(column)
        common.legend(figure)
    return figure


def _draw_levels(axes: Axes, levels: Mapping[str, float]) -> None:
    for label, level in levels.items():
        axes.axhline(level, color="black", linewidth=0.8, linestyle=":")
        place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(label, (1, level), (0, 2), ha="right", fontsize=7, **place)


def _format_steps(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_curve(axes: Axes, rows: Rows, column: str, label: str, colour: str) -> None:
    steps = sorted({int(row["step"]) for row in rows})
    groups = [numbers([r for r in rows if int(r["step"]) == step], column) for step in steps]
    mean = np.array([group.mean() for group in groups])
    error = np.array([standard_error(group) for group in groups])
    axes.plot(steps, mean, color=colour, linewidth=1.3, label=label)
    axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)


def learning_grid(
    table: str | Path, *, curve: str = "algorithm", column: str = "score", label: str = "{}"
) -> Figure:
    """Mean and standard error over seeds: a row of panels for each environment, one per mixture.

    There is a curve for each value of the table's column `curve`, named by `label`.
    """
    rows = [row for row in read(table, {*TASK, curve, column, "step"}) if row[column] != ""]
    panels, across = _panels(rows)
    curves = [
        (label.format(value), look.colour, [row for row in rows if row[curve] == value])
        for value, look in looks(distinct(rows, curve)).items()
    ]
    with matplotlib.rc_context(common.STYLE):
        wide = max(2.7 * across + 0.5, 5.0)  # wide enough for the legend
        figure = Figure(figsize=(wide, 2.2 * len(panels) + 0.9), layout="constrained")
        # One scale for all scores, from 0: with a scale of its own, a panel would magnify noise.
        alike = column == "score"
        axes = figure.subplots(len(panels), across, squeeze=False, sharex=True, sharey=alike)
        for line, tasks in zip(axes, panels.values(), strict=True):
            for here, task in zip(line, tasks, strict=False):
                _draw_task(here, task, curves, column)
            for empty in line[len(tasks) :]:
                empty.set_axis_off()
        if alike:
            axes[0, 0].set_ylim(bottom=min(0.0, axes[0, 0].get_ylim()[0]))
        common.legend(figure, columns=int(wide / 1.2))
        figure.supylabel("normalised score" if alike else column, fontsize=9)
        steps, seeds = max(int(row["step"]) for row in rows), len(distinct(rows, "seed"))
        figure.supxlabel(f"gradient steps ({steps:,} in all, {seeds} seeds)", fontsize=9)
    return figure


def _panels(rows: Rows) -> tuple[dict[str, list[Task]], int]:
    """The tasks of each environment, in both versions of it, and the largest number of them."""
    panels: dict[str, list[Task]] = {}
    for task in dict.fromkeys(map(task_of, rows)):
        panels.setdefault(family(task.environment), []).append(task)
    return panels, max(map(len, panels.values()))


def _draw_task(axes: Axes, task: Task, curves: list[tuple[str, str, Rows]], column: str) -> None:
    for label, colour, rows in curves:
        if mine := [row for row in rows if task_of(row) == task]:
            _draw_curve(axes, mine, column, label, colour)
    if column == "score":
        axes.axhline(100, color="black", linewidth=0.8, linestyle=":")
    axes.set_title(str(task), fontsize=9)
    _format_steps(axes)


def last_bars(table: str | Path, *, column: str, label: str) -> Figure:
    """The last values of a column: a panel for each environment, a bar for each mixture."""
    rows = [row for row in read(table, {*TASK, column, "step"}) if row[column] != ""]
    steps = max(int(row["step"]) for row in rows)
    last = [row for row in rows if int(row["step"]) == steps]
    panels, across = _panels(rows)
    with matplotlib.rc_context(common.STYLE):
        figure = Figure(figsize=(2.2 * len(panels) + 0.4, 2.4), layout="constrained")
        line = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (name, tasks) in zip(line, panels.items(), strict=True):
            groups = [numbers([r for r in last if task_of(r) == task], column) for task in tasks]
            _draw_bars(axes, [f"{task.medium}, {task.random}" for task in tasks], groups)
            axes.set_title(f"{name} ({tasks[0].expert}, Y, Z)", fontsize=9)
            axes.set_xlim(-0.6, across - 0.4)
        figure.supylabel(label, fontsize=9)
        figure.supxlabel(f"Y, Z (after {steps:,} gradient steps)", fontsize=9)
    return figure


def _draw_bars(axes: Axes, names: list[str], groups: list[np.ndarray]) -> None:
    """Draw the mean and standard error of each group."""
    means, errors = [group.mean() for group in groups], [standard_error(group) for group in groups]
    axes.bar(names, means, yerr=errors, color=common.COLOURS[0], width=0.6)
    axes.tick_params(axis="x", labelsize=7)
