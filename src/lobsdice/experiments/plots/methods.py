"""The figure of all methods: the mean of each over each kind of tasks."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from lobsdice.experiments.plots.common import STYLE, looks, read


def methods(table: Path) -> Figure:
    """Bars of methods.csv with intervals over seeds, a panel for each kind of tasks."""
    rows = read(table, set())
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    look = looks(dict.fromkeys(row["method"] for row in rows))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * len(kinds), 0.6 + 0.28 * len(look)), layout="constrained")
        panels = figure.subplots(1, len(kinds), squeeze=False)[0]
        for panel, kind in zip(panels, kinds, strict=True):
            mine = sorted((r for r in rows if r["kind"] == kind), key=lambda r: float(r["mean"]))
            names, means = [r["method"] for r in mine], [float(r["mean"]) for r in mine]
            low, high = (
                [abs(float(r[f"mean_{end}"]) - float(r["mean"])) for r in mine]
                for end in ("low", "high")
            )
            colours = [look[name].colour for name in names]
            panel.barh(names, means, color=colours, xerr=[low, high], error_kw={"lw": 1})
            panel.set_title(f"{kind} ({mine[0]['tasks']} tasks)")
            panel.set_xlabel("score")
    return figure
