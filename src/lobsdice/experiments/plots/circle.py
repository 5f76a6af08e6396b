"""The figure of the ring: policies drawn as arrows."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from lobsdice.experiments.plots.common import STYLE, Rows, arrange, distinct, numbers, read

COUNTER_CLOCKWISE, CLOCKWISE = "#0072b2", "#d55e00"


def circle(table: str | Path) -> Figure:
    """The figure, with a row of panels per dataset. A likelier action has a stronger arrow."""
    rows = read(table, {"data", "matched", "state", "counter_clockwise", "pair_total_variation"})
    data, matched = distinct(rows, "data"), distinct(rows, "matched")
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
        arrange(figure)
    return figure


def _draw_ring(axes: Axes, rows: Rows) -> None:
    chances = numbers(rows, "counter_clockwise")
    angles = 2 * np.pi * np.arange(len(rows)) / len(rows)
    nodes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for here, chance in enumerate(chances):
        _draw_arrow(axes, nodes[here], nodes[(here + 1) % len(nodes)], chance, COUNTER_CLOCKWISE)
        _draw_arrow(axes, nodes[here], nodes[here - 1], 1 - chance, CLOCKWISE)
    axes.scatter(*nodes.T, s=70, color="white", edgecolor="#444444", linewidth=1, zorder=3)
    distance = float(rows[0]["pair_total_variation"])
    text = f"{np.mean(chances):.0%}\ncounter-clockwise\n\ntotal variation\nof pairs {distance:.2f}"
    axes.text(0, 0, text, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _draw_arrow(axes: Axes, here: np.ndarray, to: np.ndarray, chance: float, colour: str) -> None:
    """Draw an arrow to a neighbour: outside the ring counter-clockwise, inside it clockwise."""
    if chance < 0.005:  # would be drawn as a bare head
        return
    arrow = FancyArrowPatch(
        tuple(here),
        tuple(to),
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
