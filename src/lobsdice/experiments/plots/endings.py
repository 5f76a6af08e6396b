"""The figure of the worlds that end: the last policies' share of the demonstrator's success."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lobsdice.environments.tasks.table import NOISY, family
from lobsdice.experiments import statistics
from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.common import Rows, distinct, looks, numbers, read

SHARES = ("share", "drawn_share")


def endings(scores: str | Path, exact: str | Path) -> Figure:
    """A panel for each world: each seed's share, the mean and its bootstrap interval, arm by arm.

    A diamond is the mean share with actions drawn from the policy. Noisy worlds are below their
    deterministic versions. If the table `exact` exists, the grids have their exact solutions below
    the arms.
    """
    rows = _last(read(scores, {"arm", "world", "step", *SHARES}))
    rows += _solutions(read(exact, {"method", "world", *SHARES})) if Path(exact).exists() else []
    worlds, arms = distinct(rows, "world"), distinct(rows, "arm")
    families = list(dict.fromkeys(map(family, worlds)))
    versions = [v for v in ("", NOISY) if any(name + v in worlds for name in families)]
    with matplotlib.rc_context(common.STYLE):
        size = (2.1 * len(families) + 1.4, (0.22 * len(arms) + 0.5) * len(versions) + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(
            len(versions), len(families), squeeze=False, sharex=True, sharey=True
        )
        for line, version in zip(panels, versions, strict=True):
            for axes, name in zip(line, families, strict=True):
                mine = [row for row in rows if row["world"] == name + version]
                _draw_world(axes, name + version, arms, mine)
        panels[0, 0].set_ylim(len(arms) - 0.5, -0.5)
        panels[0, 0].set_yticks(range(len(arms)), arms)
        figure.supxlabel("success of the last policy / success of the demonstrator", fontsize=9)
    return figure


def _last(rows: Rows) -> Rows:
    """The rows of the last policies."""
    end = max(int(row["step"]) for row in rows)
    return [row for row in rows if int(row["step"]) == end]


def _solutions(rows: Rows) -> Rows:
    """The exact solutions as arms."""
    return [row | {"arm": f"{row['method']}, {row['terminal']}"} for row in rows]


def _draw_world(axes: Axes, world: str, arms: list[str], rows: Rows) -> None:
    if not rows:
        return axes.set_axis_off()
    for place, (arm, look) in enumerate(looks(arms).items()):
        mine = [row for row in rows if row["arm"] == arm]
        if mine:
            _draw_arm(axes, place, look.colour, *(numbers(mine, name) for name in SHARES))
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_title(world, fontsize=9)
    return None


def _draw_arm(
    axes: Axes, place: int, colour: str, shares: np.ndarray, drawn_shares: np.ndarray
) -> None:
    mean, low, high = statistics.interval(shares[:, None], statistics.mean)
    axes.plot(shares, np.full(len(shares), place), ".", color=colour, alpha=0.4)
    axes.errorbar(
        [mean], [place], xerr=[[mean - low], [high - mean]], fmt="|", color=colour, markersize=9
    )
    axes.plot([drawn_shares.mean()], [place], "D", color=colour, markersize=4, fillstyle="none")
