"""Returns and scores of the policies, in tables and in one number."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lobsdice.experiments import statistics
from lobsdice.report.charts import key
from lobsdice.report.curves import OFFLINE, PERFORMANCE, groups, title
from lobsdice.report.html import Column, Html, join, number, table, tag
from lobsdice.report.run_record import Variant


class Summary(NamedTuple):
    """The outcome in one number, and its interval."""

    metric: str
    """`score` if there is one, otherwise `return`."""
    last: float
    low: float
    high: float
    best: float
    """The mean over runs of the best evaluation, chosen by its return."""
    runs: int

    @property
    def interval(self) -> str:
        return f"{brief(self.low)} to {brief(self.high)}"


def brief(value: float) -> str:
    """Return a number with one decimal: a few episodes are worth no more."""
    return number(round(value, 1))


def summarise(variant: Variant, metrics: Sequence[str]) -> Summary | None:
    """Summarise the last evaluations of all runs; None if there are none."""
    metric = next((name for name in PERFORMANCE if name in metrics), None)
    if metric is None or not len(last := variant.ends(metric)):
        return None
    found = statistics.interval(last[:, None], statistics.mean)
    best = float(variant.bests(metric)[0].mean())
    return Summary(metric, found.value, found.low, found.high, best, len(last))


def scores(variant: Variant, metrics: Sequence[str]) -> Html:
    """Return a table of all runs."""
    metrics = [name for name in PERFORMANCE if name in metrics]
    measured = [Column(f"{which} {name}") for name in metrics for which in ("last", "best")]
    columns = [Column("seed"), *measured, Column("at step")]
    rows = _rows(variant, metrics)
    if len(rows) > 1:
        means = {c.key: float(np.mean([row[c.key] for row in rows])) for c in measured}
        rows.append({"seed": "mean", **means, "at step": None})
    note = (
        "“Best” is the best evaluation during training. It was chosen by its return, which is "
        "impossible without an environment."
    )
    whole = table(columns, rows, label="Scores of all seeds")
    return join(whole, tag("p", note, class_="quiet"))


def _rows(variant: Variant, metrics: Sequence[str]) -> list[dict[str, Any]]:
    seeds = {row["run"]: row["seed"] for row in variant.rows}
    values = zip(variant.runs, variant.values(metrics[0], variant.steps), strict=True)
    tried = [run for run, curve in values if not np.isnan(curve).all()]
    found: list[dict[str, Any]] = [{"seed": str(seeds[run])} for run in tried]
    for metric in metrics:
        ends, (bests, steps) = variant.ends(metric), variant.bests(metric)
        for row, last, best, step in zip(found, ends, bests, steps, strict=True):
            row |= {f"last {metric}": float(last), f"best {metric}": float(best), "at step": step}
    return found


def outcomes(variants: Sequence[Variant], metrics: Sequence[str]) -> Html:
    """Return a table of means over seeds: last values except losses, and best returns."""
    measures = groups(metrics).get(OFFLINE, [])
    tried = [metric for metric in PERFORMANCE if metric in metrics]
    columns = [
        Column("run"),
        Column("steps"),
        *(
            Column(f"{which} {m}", f"{title(m)}, {which}")
            for m in tried
            for which in ("last", "best")
        ),
        *(Column(f"last {metric}", title(metric)) for metric in measures),
    ]
    rows = [
        {"run": join(key(i), variant.label), **_outcome(variant, tried, measures)}
        for i, variant in enumerate(variants)
    ]
    return table(columns, rows, label="Outcomes", sortable=True)


def _outcome(variant: Variant, tried: Sequence[str], measures: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"steps": max(variant.steps, default=0)}
    for metric in (*tried, *measures):
        ends = variant.ends(metric)
        row[f"last {metric}"] = float(np.mean(ends)) if len(ends) else None
    for metric in tried:
        bests, _ = variant.bests(metric)
        row[f"best {metric}"] = float(np.mean(bests)) if len(bests) else None
    return row
