"""Draw overview.svg from a few episodes of the built-in Hopper."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from lobsdice.data.episodes import Episodes
from lobsdice.environments.tasks.task import Task, load

#: Two of Hopper's observations: the height of the torso and the speed forward.
HEIGHT, SPEED = 0, 5
POINTS = 250
EXPERT, SOURCES, INK = "#0072b2", ("#e69f00", "#999999"), "#333333"
BOX = {"boxstyle": "round,pad=0.01", "linewidth": 1.5, "edgecolor": INK}


def draw(task: Task) -> Figure:
    figure = plt.figure(figsize=(9, 3.9))
    _demonstrations(figure.add_axes((0.06, 0.59, 0.29, 0.32)), task.expert)
    _recordings(figure.add_axes((0.06, 0.12, 0.29, 0.32)), task.offline)
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.set_axis_off()
    canvas.patch.set_alpha(0)
    _box(canvas, (0.49, 0.37), "lobsdice", "no environment,\nno expert action", EXPERT)
    _box(canvas, (0.79, 0.37), "a policy", "action for\nan observation", INK)
    for start, end in (((0.37, 0.74), (0.48, 0.6)), ((0.37, 0.28), (0.48, 0.42))):
        _arrow(canvas, start, end)
    _arrow(canvas, (0.67, 0.5), (0.775, 0.5))
    return figure


def _demonstrations(axes: Axes, episodes: Episodes) -> None:
    axes.set_title("demonstrations: states only", fontsize=10, color=EXPERT)
    _scatter(axes, episodes, EXPERT, "expert")
    _label(axes)


def _recordings(axes: Axes, episodes: Episodes) -> None:
    axes.set_title("logs: states and actions, any quality", fontsize=10, color=INK)
    assert episodes.source is not None
    for i, colour in enumerate(SOURCES):
        part = episodes.select(np.flatnonzero(episodes.source == i))
        _scatter(axes, part, colour, episodes.source_names[i])
    axes.set_xlabel("height of the torso", fontsize=8)
    _label(axes)


def _scatter(axes: Axes, episodes: Episodes, colour: str, name: str) -> None:
    rows = np.random.default_rng(0).choice(len(episodes.observations), POINTS, replace=False)
    states = episodes.observations[rows]
    axes.scatter(states[:, HEIGHT], states[:, SPEED], s=4, color=colour, label=name, linewidths=0)


def _label(axes: Axes) -> None:
    axes.set_ylabel("speed", fontsize=8)
    axes.set_xlim(0.65, 1.7)
    axes.set_ylim(-1.5, 4.5)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, markerscale=2, loc="lower left", handletextpad=0.1, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _box(axes: Axes, corner: tuple[float, float], name: str, note: str, colour: str) -> None:
    x, y = corner
    axes.add_patch(FancyBboxPatch(corner, 0.165, 0.26, facecolor="white", **BOX))
    axes.text(x + 0.08, y + 0.185, name, ha="center", fontsize=14, weight="bold", color=colour)
    axes.text(x + 0.08, y + 0.035, note, ha="center", fontsize=9, color=INK)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=18, color=INK))


if __name__ == "__main__":
    # Without these the same picture would be another file each time.
    mpl.rcParams["svg.hashsalt"] = "lobsdice"
    picture = draw(load("hopper", expert=2, offline={"medium": 5, "random": 20}))
    picture.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
