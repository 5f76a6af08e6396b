"""Figures of the random-MDP table: total variation over the number of offline trajectories."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.common import Look, Rows, distinct, numbers

#: LobsDICE with the second of two weights α.
SECOND_ALPHA = Look("#d55e00")


def save_random_mdp(table: Path, folder: Path) -> list[Path]:
    """Write the figure with a linear axis, as in the paper, and with a logarithmic one."""
    return [
        *common.save(random_mdp(table), folder / "random_mdp"),
        *common.save(random_mdp(table, logarithmic=True), folder / "random_mdp_log"),
    ]


def random_mdp(table: str | Path, *, logarithmic: bool = False) -> Figure:
    """The figure, with a row of panels for each β and a column for each number of experts."""
    rows = common.read(table, {"beta", "n_expert", "n_offline", "algorithm", "alpha", "mean"})
    betas, experts = distinct(rows, "beta"), distinct(rows, "n_expert")
    with matplotlib.rc_context(common.STYLE):
        figure = Figure(figsize=(2.6 * len(experts) + 0.6, 2.1 * len(betas) + 0.9))
        axes = figure.subplots(len(betas), len(experts), sharex=True, sharey=True, squeeze=False)
        for i, beta in enumerate(betas):
            for j, expert in enumerate(experts):
                here = [r for r in rows if (r["beta"], r["n_expert"]) == (beta, expert)]
                for label, look, curve in _curves(here):
                    _draw(axes[i, j], curve, label, look)
                _dress(axes[i, j], logarithmic)
        _title(axes, betas, experts)
        common.legend(figure)
        common.arrange(figure)
    return figure


def _curves(rows: Rows) -> Iterator[tuple[str, Look, Rows]]:
    """Label, look and rows of the curves of a panel, in the order of the table."""
    styles = common.looks(distinct(rows, "algorithm"))
    for name, style in styles.items():
        mine = [row for row in rows if row["algorithm"] == name]
        alphas = distinct(mine, "alpha")
        for i, alpha in enumerate(alphas):
            label = f"{name}, α = {float(alpha):g}" if len(alphas) > 1 else name
            curve = [row for row in mine if row["alpha"] == alpha]
            yield label, SECOND_ALPHA if i else style, curve


def _draw(axes: Axes, rows: Rows, label: str, look: Look) -> None:
    x, mean = numbers(rows, "n_offline"), numbers(rows, "mean")
    error = numbers(rows, "standard_error")
    style = {"color": look.colour, "marker": look.marker, "markersize": 3.5, "linewidth": 1.3}
    axes.plot(x, mean, label=label, **style)
    axes.fill_between(x, mean - error, mean + error, color=look.colour, alpha=0.25, linewidth=0)


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
