"""Learning curves: one chart for each metric, in groups."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lobsdice.report.charts import Band, Chart, Line, key
from lobsdice.report.html import Html, join, tag
from lobsdice.report.run_record import Variant

#: Points of a curve at most.
MOST_POINTS = 300
#: The curves of single runs are drawn beside their mean if there are at most so many.
MOST_RUNS = 20
#: Ranges over seeds are drawn if there are at most so many variants.
MOST_RANGES = 5
#: Title and note of each chart. Other metrics are shown under their names.
MEANING = {
    "score": ("Score", "0 is a random policy, 100 the expert."),
    "return": ("Return", "The mean return over the episodes of an evaluation."),
    "policy_loss": ("Policy loss", "The loss that the policy minimises."),
    "nu_loss": ("Dual objective", "The loss of ν, which gives the weights d/d^I."),
    "dual_loss": ("Dual objective", "The loss of μ and ν, which give the weights d/d^I."),
    "ratio_loss": ("Discriminator loss", "Demonstrations against logs; 1.386 is chance."),
    "critic_loss": ("Critic loss", ""),
    "cloning_loss": ("Cloning loss", ""),
    "inverse_loss": ("Inverse model loss", "Minus the log-likelihood of actions given (s, s')."),
    "nu_penalty": ("Gradient penalty of ν", ""),
    "mu_penalty": ("Gradient penalty of μ", ""),
    "ratio_penalty": ("Gradient penalty of r", "r is the log density ratio of the discriminator."),
    "effective_share": (
        "Effective sample size",
        "The share of the logs that carries the weight. Near 0, a few rows decide everything.",
    ),
    "largest_share": ("Largest weight", "The share of the heaviest transition."),
    "ratio_auc": (
        "Discriminator AUC",
        "The probability that it ranks a demonstrated pair above a logged one; 0.5 is chance.",
    ),
    "ratio_calibration": ("Calibration error", "The error of the discriminator's probabilities."),
    "ratio_calibrated": ("Calibrated", "The same error, after the calibration by held-out rows."),
    "ratio_slope": (
        "Slope of the calibration",
        "Below 1 the discriminator is too sure.",
    ),
    "flow_residual": ("Flow residual", "Violation of the flow constraint by the weighted logs."),
    "expert_distance": (
        "Distance to the expert",
        "The distance of the weighted logs from the demonstrations; 0 is best.",
    ),
    "policy_distance": (
        "Distance of the policy",
        "The distance of the policy from the actions of the weighted logs; 0 is best.",
    ),
    "demonstration_error": (
        "Demonstration error",
        "At demonstrated states, the distance of the policy's action from the logged action that "
        "made the same movement. `lobsdice select --by error` ranks by it.",
    ),
    "action_error": (
        "Action error",
        "The distance of the policy's actions from those in held-out rows, weighted by d/d^I.",
    ),
    "inverse_error": ("Inverse model error", "The error of actions inferred from (s, s')."),
}
ONLINE, OFFLINE = "In the environment", "Without an environment"
HELD_OUT, MASS, TRAINED = "held_out_", "mass_", "trained_"
PERFORMANCE = ("score", "return")
#: Metrics that say nothing unless the ratio was calibrated: then the slope is not 1.
SLOPE, CALIBRATED = "ratio_slope", "ratio_calibrated"


def groups(metrics: Sequence[str]) -> dict[str, list[str]]:
    """Return the metrics that have charts of their own, by heading."""
    shown = [
        m for m in metrics if not m.startswith((HELD_OUT, MASS, TRAINED)) and m != "return_std"
    ]
    losses = [m for m in shown if m.endswith("_loss")] + [
        m for m in shown if m.endswith("_penalty")
    ]
    rest = [m for m in shown if m not in (*PERFORMANCE, *losses)]
    found = {
        ONLINE: [m for m in PERFORMANCE if m in shown],
        OFFLINE: rest,
        "Losses": losses,
    }
    return {heading: names for heading, names in found.items() if names}


def title(metric: str) -> str:
    return MEANING.get(metric, (metric.replace("_", " ").capitalize(), ""))[0]


def charts(variants: Sequence[Variant], metrics: Sequence[str]) -> Html:
    """Draw all metrics: the runs of one variant, or the means of several."""
    if all(row.get(SLOPE, 1) == 1 for variant in variants for row in variant.rows):
        metrics = [name for name in metrics if name not in (SLOPE, CALIBRATED)]
    steps = thinned(sorted({step for variant in variants for step in variant.steps}))
    found = [legend(variants)] if len(variants) > 1 else []
    for heading, names in groups(metrics).items():
        if len(variants) > 1:
            drawn = [_several(name, variants, steps).html() for name in names]
        else:
            drawn = [_one(name, variants[0], metrics, steps).html() for name in names]
            if heading == OFFLINE:
                drawn += _masses(variants[0], metrics, steps, MASS, "held-out rows")
                drawn += _masses(
                    variants[0], metrics, steps, f"{TRAINED}{MASS}", "rows of training"
                )
        wide = "charts wide" if heading == ONLINE else "charts"
        found += [tag("h3", heading), tag("div", drawn, class_=wide)]
    return join(*found)


def legend(variants: Sequence[Variant]) -> Html:
    """Say which colour is which variant."""
    items = (tag("li", key(i), variant.label) for i, variant in enumerate(variants))
    shaded = "; the shaded range is from the worst to the best seed" * shows_ranges(variants)
    said = tag("p", f"Lines are means over seeds{shaded}.")
    return join(said, tag("ul", items, class_="legend"))


def shows_ranges(variants: Sequence[Variant]) -> bool:
    """True if ranges over seeds are drawn; those of many variants would hide each other."""
    return len(variants) <= MOST_RANGES


def thinned(steps: Sequence[int], most: int = MOST_POINTS) -> list[int]:
    """Return at most `most` of the steps, evenly spaced, with the first and the last."""
    places = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    return [steps[i] for i in places]


def _one(metric: str, variant: Variant, metrics: Sequence[str], steps: Sequence[int]) -> Chart:
    """Draw every run thin and their mean thick, beside the mean on other rows."""
    values = variant.values(metric, steps)
    average = Line("mean" if len(values) > 1 else "value", mean(values))
    name, note = MEANING.get(metric, (title(metric), ""))
    chart = Chart(name, np.array(steps), [*_runs(variant, values), average], note=note)
    for prefix, here, there in (
        (HELD_OUT, "training", "held out"),
        (TRAINED, "held out", "training"),
    ):
        if (other := f"{prefix}{metric}") in metrics:
            beside = Line(there, mean(variant.values(other, steps)), 1)
            lines = [*chart.lines[:-1], replace(average, name=here), beside]
            return replace(chart, lines=lines, legend=True)
    return chart


def _several(metric: str, variants: Sequence[Variant], steps: Sequence[int]) -> Chart:
    """Draw the mean of each variant, and the range of its runs."""
    values = [variant.values(metric, steps) for variant in variants]
    named = enumerate(zip(variants, values, strict=True))
    lines = [Line(variant.label, mean(v), i) for i, (variant, v) in named]
    bands = [
        # Unlike minimum and maximum, fmin and fmax ignore NaN.
        Band(np.fmin.reduce(v, axis=0), np.fmax.reduce(v, axis=0), i)
        for i, v in enumerate(values)
        if shows_ranges(variants) and len(v) > 1
    ]
    name, note = MEANING.get(metric, (title(metric), ""))
    return Chart(name, np.array(steps), lines, note=note, bands=bands)


def _runs(variant: Variant, values: np.ndarray) -> list[Line]:
    """Draw each run's own curve if there are several."""
    if not 1 < len(values) <= MOST_RUNS:
        return []
    seeds = {row["run"]: row["seed"] for row in variant.rows}
    named = zip(variant.runs, values, strict=True)
    return [Line(f"seed {seeds[run]}", v, thin=True) for run, v in named if run in seeds]


def mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the runs that have a value."""
    count = (~np.isnan(values)).sum(axis=0)
    return np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)


def _masses(
    variant: Variant, metrics: Sequence[str], steps: Sequence[int], prefix: str, rows: str
) -> list[Html]:
    """Draw the share of each source in the weight of some rows, if there are several sources."""
    names = [metric for metric in metrics if metric.startswith(prefix)]
    lines = [
        Line(name.removeprefix(prefix), mean(variant.values(name, steps)), i)
        for i, name in enumerate(names)
    ]
    if not lines:
        return []
    note = f"The share of the weight on each source of the logs, in {rows}."
    whole = {"note": note, "limits": (0.0, 1.0), "legend": True}
    return [Chart(f"Weight by source, {rows}", np.array(steps), lines, **whole).html()]
