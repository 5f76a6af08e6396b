"""Draw ends.svg, a world that ends and what is learned there, and readings.svg."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Rectangle

from lobsdice import tabular
from lobsdice.data.episodes import Episodes
from lobsdice.environments.tasks.task import Task, load
from lobsdice.environments.worlds.grid import MAP, SIZE, Table, table

#: The default of training.
GAMMA = 0.99
SHOWN = 20
GOAL, PIT, WALL, INK, EXPERT, CUT = "#009e73", "#d55e00", "#bbbbbb", "#333333", "#0072b2", "#777777"
#: The colour of a cell in `MAP`.
CELLS = {"G": GOAL, "X": PIT, "#": WALL}
#: For each reading: what follows the end, in words.
READINGS = {
    "restart": "the task begins anew",
    "stay": "it stays there for ever",
    "keep": "nothing follows",
}


def draw_world(task: Task, world: Table) -> Figure:
    figure, panels = plt.subplots(1, 4, figsize=(10, 2.9))
    _map(panels[0], "demonstrations")
    _paths(panels[0], task.expert)
    _map(panels[1], "logs, by their ends")
    _paths(panels[1], _some(task.offline))
    for axes, terminal in zip(panels[2:], ("restart", "keep"), strict=True):
        _map(axes, f"learned with {terminal}")
        _paths(axes, _walks(world, learn(task, world, terminal), task.spec.max_steps))
    handles = [
        Line2D([], [], marker="o", ls="", color=GOAL, label="terminated at the goal"),
        Line2D([], [], marker="X", ls="", color=PIT, label="terminated in a pit"),
        Line2D([], [], marker="o", ls="", color=CUT, mfc="white", label="truncated"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3, fontsize=9, frameon=False)
    figure.subplots_adjust(0.01, 0.1, 0.99, 0.92, wspace=0.05)
    return figure


def _map(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, color=INK)
    axes.set(xlim=(-0.5, SIZE - 0.5), ylim=(-0.5, SIZE - 0.5), xticks=[], yticks=[], aspect=1)
    for y, row in enumerate(reversed(MAP)):
        for x, kind in enumerate(row):
            if kind in CELLS:
                alpha = 1.0 if kind == "#" else 0.35
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=CELLS[kind], alpha=alpha))


def _paths(axes: Axes, episodes: Episodes) -> None:
    random = np.random.default_rng(0)
    for i in range(len(episodes)):
        rows = slice(episodes.starts[i], episodes.ends[i] + 1)
        x, y = episodes.observations[rows].T + random.uniform(-0.25, 0.25, (2, 1))
        axes.plot(x, y, color=EXPERT, linewidth=0.8, alpha=0.5)
        if not episodes.terminated[i]:
            axes.plot(x[-1], y[-1], "o", color=CUT, markerfacecolor="white", markersize=5, zorder=3)
        elif _kind(episodes.observations[episodes.ends[i]]) == "G":
            axes.plot(x[-1], y[-1], "o", color=GOAL, markersize=5, zorder=3)
        else:
            axes.plot(x[-1], y[-1], "X", color=PIT, markersize=6, zorder=3)


def _kind(observation: np.ndarray) -> str:
    x, y = observation.astype(int)
    return MAP[SIZE - 1 - y][x]


def _some(episodes: Episodes) -> Episodes:
    """A few episodes of each source."""
    assert episodes.source is not None
    rows = [np.flatnonzero(episodes.source == i) for i in range(len(episodes.source_names))]
    return episodes.select(np.concatenate([r[: 2 if i == 0 else 6] for i, r in enumerate(rows)]))


def learn(task: Task, world: Table, terminal: str) -> np.ndarray:
    """The exact solution for the counts of the same episodes that networks learn from."""
    numbers = {place: i for i, place in enumerate(map(tuple, world.observations.tolist()))}

    def numbered(episodes: Episodes) -> Episodes:
        states = [[numbers[place]] for place in map(tuple, episodes.observations.tolist())]
        return replace(episodes, observations=np.array(states, np.float32))

    inputs = tabular.estimate(
        numbered(task.expert),
        numbered(task.offline),
        states=len(numbers),
        gamma=GAMMA,
        terminal=terminal,
        rows="uniform",
    )
    # Five demonstrations lack pairs that a policy cannot avoid.
    return tabular.lobsdice(inputs.mdp, inputs.d_expert, inputs.d_offline, mix=1e-3).policy


def chance_of_goal(world: Table, policy: np.ndarray, steps: int) -> float:
    """The share of episodes of at most so many steps that end at the goal."""
    chance = world.initial
    for _ in range(steps):
        chance = np.einsum("s,sa,sat->t", chance, policy, world.transition)
    return float(chance @ world.goal)


def _walks(world: Table, policy: np.ndarray, steps: int) -> Episodes:
    """Episodes of a policy, which draws its actions."""
    random = np.random.default_rng(0)
    paths = []
    for _ in range(SHOWN):
        path = [random.choice(len(world.final), p=world.initial)]
        while not world.final[path[-1]] and len(path) <= steps:
            action = random.choice(policy.shape[1], p=policy[path[-1]])
            path.append(random.choice(len(world.final), p=world.transition[path[-1], action]))
        paths.append(path)
    return Episodes.from_arrays(
        world.observations[np.concatenate(paths)],
        lengths=[len(path) - 1 for path in paths],
        terminated=[world.final[path[-1]] for path in paths],
    )


def draw_readings() -> Figure:
    figure, panels = plt.subplots(1, 3, figsize=(9, 1.7))
    for axes, (name, words) in zip(panels, READINGS.items(), strict=True):
        axes.set(xlim=(-0.5, 4), ylim=(-1.1, 1.3), aspect=1)
        axes.set_axis_off()
        axes.text(1.2, 1.1, name, ha="center", fontsize=12, weight="bold", color=INK)
        axes.text(1.2, 0.75, words, ha="center", fontsize=9, color=INK)
        for x, label, colour in ((0, "$s_0$", EXPERT), (1.2, "…", EXPERT), (2.4, "$f$", GOAL)):
            axes.plot(x, 0, "o", color=colour, markersize=20)
            axes.text(x, 0, label, ha="center", va="center", color="white", fontsize=10)
        _arrow(axes, (0, 0), (1.2, 0))
        _arrow(axes, (1.2, 0), (2.4, 0))
        _after(axes, name)
    figure.subplots_adjust(0, 0, 1, 1, wspace=0)
    return figure


def _after(axes: Axes, name: str) -> None:
    if name == "restart":
        _arrow(axes, (2.4, 0), (0, 0), curve=-0.45, style="--")
        axes.text(1.2, -0.95, "no action", ha="center", fontsize=8, color=PIT)
    elif name == "stay":
        loop = FancyArrowPatch(
            (2.6, 0.25), (2.6, -0.25), connectionstyle="arc3,rad=-2.2", arrowstyle="-|>"
        )
        loop.set(mutation_scale=12, color=PIT, linestyle="--", linewidth=1.2)
        axes.add_patch(loop)
        axes.text(3.25, -0.6, "no action", ha="center", fontsize=8, color=PIT)
    else:
        axes.text(3.1, 0, "?", ha="center", va="center", fontsize=16, color=PIT)


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    curve: float = 0.0,
    style: str = "-",
) -> None:
    arrow = FancyArrowPatch(
        start, end, connectionstyle=f"arc3,rad={curve}", arrowstyle="-|>", shrinkA=11, shrinkB=11
    )
    arrow.set(mutation_scale=12, color=PIT if curve else INK, linestyle=style, linewidth=1.2)
    axes.add_patch(arrow)


if __name__ == "__main__":
    # Without these the same picture would be another file each time.
    mpl.rcParams["svg.hashsalt"] = "lobsdice"
    folder = Path(__file__).parent
    draw_world(load("grid"), table()).savefig(folder / "ends.svg", metadata={"Date": None})
    draw_readings().savefig(folder / "readings.svg", metadata={"Date": None})
