"""Rank correlations of offline measures with true scores, from the tables of this folder.

python results/selection/study.py

It writes correlations.csv, prints the run that each measure would have picked, and draws
selection.png.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from lobsdice.data.files import write_csv
from lobsdice.experiments.plots.common import save
from lobsdice.training.folder import read_rows
from lobsdice.training.select import CRITERION

HERE = Path(__file__).parent
#: Tables and their titles. The small ones have all measures at all steps.
TABLES = {
    "hopper": "Hopper",
    "walker2d": "Walker2d",
    "hopper_small": "Hopper, small",
    "walker2d_small": "Walker2d, small",
}
PARTS = ("expert_distance", "flow_residual", "policy_distance")
SUM = "sum of distances"
#: Each measure, with 1 if it should be large and -1 if it should be small. Where theory favours
#: neither, the sign is the one tested here.
SIGNS = {
    CRITERION: -1,
    SUM: -1,
    "expert_distance": -1,
    "flow_residual": -1,
    "policy_distance": -1,
    "action_error": -1,
    "held_out_policy_loss": -1,
    "held_out_nu_loss": -1,
    "held_out_ratio_loss": -1,
    "ratio_calibration": -1,
    "ratio_auc": 1,
    "effective_share": -1,
    "largest_share": -1,
    "mass_expert": 1,
}
DRAWS = 2000

Rows = list[dict]


class Estimate(NamedTuple):
    value: float
    low: float
    high: float


UNKNOWN = Estimate(np.nan, np.nan, np.nan)


def load(table: str) -> Rows:
    """The rows of a table, with the sum of the three distances, an early candidate."""
    rows = read_rows(HERE / f"{table}.csv")
    if not all(part in rows[0] for part in PARTS):
        return rows
    return [row | {SUM: sum(row[part] for part in PARTS)} for row in rows]


def grouped(rows: Rows, *names: str) -> list[Rows]:
    """Groups of the rows that agree in some columns."""
    groups: dict[tuple, Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(groups.values())


def agreement(rows: Rows, measure: str) -> float:
    """Spearman's ρ of the score with a measure times its sign; 0 for constants."""
    x, y = (rankdata([row[name] for row in rows]) for name in (measure, "score"))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return SIGNS[measure] * float(np.corrcoef(x, y)[0, 1])


def across(settings: list[Rows], measure: str) -> Estimate:
    """ρ over all runs at their last step."""
    last = [[run[-1] for run in grouped(setting, "seed")] for setting in settings]
    return bootstrap(last, lambda rows: agreement(rows, measure))


def within(settings: list[Rows], measure: str) -> Estimate:
    """The mean over runs of the ρ over the steps of a run."""
    each = [[agreement(run, measure) for run in grouped(s, "seed")] for s in settings]
    return bootstrap(each, lambda found: float(np.mean(found)))


def bootstrap(settings: list[list], statistic: Callable[[list], float]) -> Estimate:
    """A statistic of all settings with its 95 % bootstrap interval.

    Settings are resampled, not runs, because the seeds of one setting are not independent.
    """
    rng = np.random.default_rng(0)
    picks = rng.integers(len(settings), size=(DRAWS, len(settings)))
    drawn = [statistic([x for i in pick for x in settings[i]]) for pick in picks]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(statistic([x for setting in settings for x in setting]), low, high)


def picked(settings: list[Rows], measure: str) -> float:
    """The last score of the run that a measure prefers."""
    last = [run[-1] for setting in settings for run in grouped(setting, "seed")]
    return max(last, key=lambda row: SIGNS[measure] * row[measure])["score"]


def halves(settings: list[Rows], measure: str) -> float:
    """The mean score of the half of the runs that a measure prefers, minus that of the others."""
    last = [run[-1] for setting in settings for run in grouped(setting, "seed")]
    order = sorted(last, key=lambda row: -SIGNS[measure] * row[measure])
    scores = np.array([row["score"] for row in order])
    middle = len(scores) // 2
    return float(scores[:middle].mean() - scores[middle:].mean())


def repeatable(settings: list[Rows]) -> float:
    """ρ of the scores of two seeds: how far settings alone determine the ranking of runs."""
    one, other = (
        [grouped(setting, "seed")[i][-1]["score"] for setting in settings] for i in (0, 1)
    )
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def correlations() -> Rows:
    """A row for each table and each measure that it has."""
    rows = []
    for table in TABLES:
        settings = grouped(load(table), "setting")
        for measure in SIGNS:
            first, last = settings[0][0], settings[0][-1]
            if measure not in last:
                continue
            row = {"table": table, "measure": measure, "sign": SIGNS[measure]}
            for name, estimate in {"across": across, "within": within}.items():
                known = name == "across" or measure in first  # some are of the last step only
                value, low, high = estimate(settings, measure) if known else UNKNOWN
                row |= {name: value, f"{name}_low": low, f"{name}_high": high}
            row |= {"picked": picked(settings, measure), "halves": halves(settings, measure)}
            rows.append(row)
    return rows


def summary(table: str) -> str:
    """A sentence on the scores of a table."""
    rows = load(table)
    last = [run[-1] for run in grouped(rows, "setting", "seed")]
    scores = np.array([row["score"] for row in last])
    default = np.mean([row["score"] for row in last if row["setting"] == "default"])
    return (
        f"{table}: {len(scores)} runs, best {scores.max():.1f}, mean {scores.mean():.1f}, "
        f"median {np.median(scores):.1f}, worst {scores.min():.1f}; default {default:.1f}; "
        f"one seed against the other {repeatable(grouped(rows, 'setting')):+.2f}"
    )


def draw(rows: Rows) -> Figure:
    """Runs by criterion and score above, and rank correlations of all measures below."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplot_mosaic(
        [["runs hopper", "runs hopper", "runs walker2d", "runs walker2d"], [*TABLES]],
        height_ratios=[2, 3],
    )
    for table in ("hopper", "walker2d"):
        draw_runs(axes[f"runs {table}"], table)
    for table in TABLES:
        mine = {row["measure"]: row for row in rows if row["table"] == table}
        draw_correlations(axes[table], mine)
        axes[table].set_title(TABLES[table])
    for table in [*TABLES][1:]:
        axes[table].set_yticklabels([])
    figure.legend(*axes["hopper"].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def draw_runs(axes: Axes, table: str) -> None:
    last = [run[-1] for run in grouped(load(table), "setting", "seed")]
    axes.scatter([row[CRITERION] for row in last], [row["score"] for row in last], s=16)
    axes.set(title=TABLES[table], xlabel=CRITERION, ylabel="score")


def draw_correlations(axes: Axes, rows: dict[str, dict]) -> None:
    places = {measure: -i for i, measure in enumerate(SIGNS)}
    for shift, name in ((0.15, "across"), (-0.15, "within")):
        middle = np.array([row[name] for row in rows.values()])
        ends = np.array([[row[f"{name}_low"], row[f"{name}_high"]] for row in rows.values()]).T
        label = {"across": "across runs, last step", "within": "within runs, over steps"}[name]
        heights = [places[measure] + shift for measure in rows]
        errors = np.abs(ends - middle)
        axes.errorbar(middle, heights, xerr=errors, fmt="o", ms=4, lw=1, label=label)
    axes.axvline(0, color="#7f7f7f", lw=0.8)
    axes.set(xlim=(-1, 1), xlabel="Spearman's ρ with the score", yticks=[*places.values()])
    axes.set_yticklabels([*places])


def main() -> None:
    rows = correlations()
    rounded = [
        {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} for row in rows
    ]
    write_csv(HERE / "correlations.csv", rounded, line_end="\r\n")
    print(*map(summary, TABLES), sep="\n")
    for row in rows:
        print(markdown(row))
    print(*save(draw(rows), HERE / "selection"), sep="\n")


def markdown(row: dict) -> str:
    """A line of the README's tables."""
    each = (
        f"{row[name]:+.2f} ({row[f'{name}_low']:+.2f} to {row[f'{name}_high']:+.2f})"
        if np.isfinite(row[name])
        else "not logged"
        for name in ("across", "within")
    )
    numbers = f"{row['picked']:.1f} | {row['halves']:+.1f}"
    return f"| {row['table']} | `{row['measure']}` | {' | '.join(each)} | {numbers} |"


if __name__ == "__main__":
    main()
