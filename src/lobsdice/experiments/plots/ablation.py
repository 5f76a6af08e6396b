"""The figure of departures from the paper: the worth of each, among all others and alone."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lobsdice.experiments.plots.common import COLOURS, STYLE, Rows, distinct, numbers, read

#: How far the marks of the places of a departure are from its line.
APART = 0.16


def ablation(table: Path) -> Figure:
    """A panel for each kind of tasks: each departure's worth, with intervals over tasks."""
    rows = read(table, {"kind", "place", "departure", "lead"})
    kinds, names = distinct(rows, "kind"), distinct(rows, "departure")
    with matplotlib.rc_context(STYLE):
        size = (3.2 * len(kinds) + 2, 0.8 + 0.34 * len(names))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
        for panel, kind in zip(panels, kinds, strict=True):
            _draw(panel, names, [row for row in rows if row["kind"] == kind])
            panel.set_title(kind, fontsize=9)
        panels[0].set_yticks(range(len(names)), names)
        panels[0].set_ylim(len(names) - 0.5, -0.5)
        panels[0].legend(frameon=False, fontsize=8)
        figure.supxlabel("score with the departure minus score without it", fontsize=9)
    return figure


def _draw(panel: Axes, names: list[str], rows: Rows) -> None:
    panel.axvline(0, color="black", linewidth=0.8, linestyle=":")
    places = distinct(rows, "place")
    for i, (place, colour) in enumerate(zip(places, COLOURS, strict=False)):
        mine = [row for row in rows if row["place"] == place]
        lines = np.array([names.index(row["departure"]) for row in mine]) + APART * (2 * i - 1)
        values = numbers(mine, "lead")
        ends = [numbers(mine, f"lead_tasks_{end}") for end in ("low", "high")]
        panel.errorbar(
            values, lines, xerr=np.abs(ends - values), fmt="o", color=colour, ms=4, label=place
        )
