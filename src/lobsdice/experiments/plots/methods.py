"""The figure of all methods: their means over each kind of tasks, and in each task."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lobsdice.experiments.plots.common import STYLE, Look, Rows, looks, read

#: Panels of bars side by side.
ACROSS = 3


def methods(means: Path, tasks: Path) -> Figure:
    """Bars of methods.csv with intervals over tasks, and below the means of tasks.csv as a map."""
    rows, each = read(means, set()), read(tasks, set())
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    count = len({row["method"] for row in each})
    look = looks(dict.fromkeys(row["method"] for row in rows))
    across = min(len(kinds), ACROSS)
    down = -(-len(kinds) // ACROSS)
    wide = max(3.4 * across, 1.5 + 0.45 * len({row["task"] for row in each}))
    heights = [down * (1 + 0.2 * count), 1.8 + 0.22 * count]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(wide, sum(heights)), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=heights, squeeze=False).ravel()
        panels = above.subplots(down, across, squeeze=False).ravel()
        for panel, kind in zip(panels, kinds, strict=False):
            _bars(panel, [row for row in rows if row["kind"] == kind], look)
            panel.set_title(f"{kind}: mean")
        for panel in panels[len(kinds) :]:
            panel.set_axis_off()
        _map(below.subplots(), each)
    return figure


def _bars(panel: Axes, rows: Rows, look: Mapping[str, Look]) -> None:
    mine = sorted(rows, key=lambda row: float(row["mean"]))
    names, means = [row["method"] for row in mine], np.array([float(row["mean"]) for row in mine])
    ends = [np.array([float(row[f"mean_tasks_{end}"]) for row in mine]) for end in ("low", "high")]
    colours = [look[name].colour for name in names]
    panel.barh(names, means, color=colours, xerr=np.abs(ends - means), error_kw={"lw": 1})
    panel.set_xlabel("score; intervals over tasks")


def _map(panel: Axes, rows: Rows) -> None:
    """The mean of each method in each task, the best methods first."""
    found = {(row["method"], row["task"]): float(row["mean"]) for row in rows}
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    names = list(dict.fromkeys(row["method"] for row in rows))
    table = np.array([[found.get((name, task), np.nan) for task in tasks] for name in names])
    order = np.argsort(-np.nanmean(table, axis=1), kind="stable")
    table = table[order]
    panel.imshow(table, vmin=0, vmax=100, cmap="viridis", aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        if np.isfinite(value):
            colour = "white" if value < 60 else "black"
            panel.text(j, i, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=7)
    panel.set_xticks(range(len(tasks)), tasks, rotation=45, ha="right")
    panel.set_yticks(range(len(names)), [names[i] for i in order])
    panel.set_title("mean in each task")
