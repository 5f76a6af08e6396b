"""Learning curves: a chart for each thing that was measured, in groups."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lobsdice.report.charts import Band, Chart, Line, key
from lobsdice.report.html import Html, join, tag
from lobsdice.report.recorded import Variant

#: Points of a curve, at most.
MOST_POINTS = 300
#: Curves of single runs that are drawn, at most, beside their mean.
MOST_RUNS = 20
#: Variants whose ranges over seeds are drawn, at most.
MOST_RANGES = 5
#: Titles and sentences; what is not here is shown by its name.
MEANING = {
    "score": ("Score", "0 is a random policy, 100 the expert."),
    "return": ("Return", "The mean over the episodes of an evaluation."),
    "policy_loss": ("Policy loss", "What the policy minimises."),
    "nu_loss": ("Dual objective", "The loss of ν, which finds the weights."),
    "dual_loss": ("Dual objective", "The loss of μ and ν, which find the weights."),
    "ratio_loss": ("Discriminator loss", "Telling demonstrations from logs; 1.386 is by chance."),
    "critic_loss": ("Critic loss", ""),
    "cloning_loss": ("Cloning loss", ""),
    "inverse_loss": ("Inverse model loss", "Minus the log-likelihood of actions given (s, s')."),
    "nu_penalty": ("Slope penalty of ν", ""),
    "mu_penalty": ("Slope penalty of μ", ""),
    "ratio_penalty": ("Slope penalty of r", "r is the discriminator, by its log-ratio."),
    "effective_share": (
        "Effective sample size",
        "The share of the logs that carries the weight; near 0, a few rows decide everything.",
    ),
    "largest_share": ("Largest weight", "The share of the heaviest single transition."),
    "ratio_auc": (
        "Discriminator AUC",
        "The chance that it ranks a demonstrated pair above a logged one; 0.5 is by chance.",
    ),
    "ratio_calibration": ("Calibration error", "How wrong the discriminator's probabilities are."),
    "flow_residual": (
        "Flow residual",
        "How far the weighted logs are from what some policy could bring about; 0 is best.",
    ),
    "expert_distance": ("Distance to the expert", "Of the weighted logs; 0 is best."),
    "policy_distance": (
        "Distance of the policy",
        "From the one that the weights prescribe; 0 is best.",
    ),
    "demonstration_error": (
        "Error on the demonstrations",
        "How far the policy's actions are from those by which the logs move alike; `lobsdice "
        "select` goes by it.",
    ),
    "action_error": ("Action error", "Of the policy, on weighted recordings that were held out."),
    "inverse_error": ("Inverse model's error", "Of actions inferred from (s, s')."),
}
ONLINE, OFFLINE = "In the environment", "Without an environment"
HELD_OUT, MASS = "held_out_", "mass_"
PERFORMANCE = ("score", "return")


def groups(metrics: Sequence[str]) -> dict[str, list[str]]:
    """Metrics that have charts of their own, under headings."""
    shown = [m for m in metrics if not m.startswith((HELD_OUT, MASS)) and m != "return_std"]
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
    """All curves: those of one variant run by run, those of several side by side."""
    steps = thinned(sorted({step for variant in variants for step in variant.steps}))
    found = [legend(variants)] if len(variants) > 1 else []
    for heading, names in groups(metrics).items():
        if len(variants) > 1:
            drawn = [_several(name, variants, steps).html() for name in names]
        else:
            drawn = [_one(name, variants[0], metrics, steps).html() for name in names]
            drawn += _masses(variants[0], metrics, steps) if heading == OFFLINE else []
        wide = "charts wide" if heading == ONLINE else "charts"
        found += [tag("h3", heading), tag("div", drawn, class_=wide)]
    return join(found)


def legend(variants: Sequence[Variant]) -> Html:
    """Which colour is which variant."""
    items = (tag("li", key(i), variant.label) for i, variant in enumerate(variants))
    shaded = "; shaded is the range from the worst to the best seed" * shows_ranges(variants)
    said = tag("p", f"Lines are means over seeds{shaded}.")
    return join([said, tag("ul", items, class_="legend")])


def shows_ranges(variants: Sequence[Variant]) -> bool:
    """The ranges of many variants would hide each other."""
    return len(variants) <= MOST_RANGES


def thinned(steps: Sequence[int], most: int = MOST_POINTS) -> list[int]:
    """So many of them, evenly spread, the last among them."""
    places = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    return [steps[i] for i in places]


def _one(metric: str, variant: Variant, metrics: Sequence[str], steps: Sequence[int]) -> Chart:
    """Every run thin and their mean thick, beside the mean on rows that were held out."""
    values = variant.values(metric, steps)
    average = Line("mean" if len(values) > 1 else "value", mean(values))
    name, note = MEANING.get(metric, (title(metric), ""))
    held_out = f"{HELD_OUT}{metric}"
    chart = Chart(name, np.array(steps), [*_runs(variant, values), average], note=note)
    if held_out not in metrics:
        return chart
    unseen = Line("held out", mean(variant.values(held_out, steps)), 1)
    average = replace(average, name="learned from")
    return replace(chart, lines=[*chart.lines[:-1], average, unseen], legend=True)


def _several(metric: str, variants: Sequence[Variant], steps: Sequence[int]) -> Chart:
    """The mean of each variant, and the range of its runs."""
    values = [variant.values(metric, steps) for variant in variants]
    named = enumerate(zip(variants, values, strict=True))
    lines = [Line(variant.label, mean(v), i) for i, (variant, v) in named]
    bands = [
        # Unlike minimum and maximum, these two take no notice of NaN.
        Band(np.fmin.reduce(v, axis=0), np.fmax.reduce(v, axis=0), i)
        for i, v in enumerate(values)
        if shows_ranges(variants) and len(v) > 1
    ]
    name, note = MEANING.get(metric, (title(metric), ""))
    return Chart(name, np.array(steps), lines, note=note, bands=bands)


def _runs(variant: Variant, values: np.ndarray) -> list[Line]:
    """Each run's own curve, where there are several."""
    if not 1 < len(values) <= MOST_RUNS:
        return []
    seeds = {row["run"]: row["seed"] for row in variant.rows}
    named = zip(variant.runs, values, strict=True)
    return [Line(f"seed {seeds[run]}", v, thin=True) for run, v in named if run in seeds]


def mean(values: np.ndarray) -> np.ndarray:
    """The mean over the runs that have a value."""
    count = (~np.isnan(values)).sum(axis=0)
    return np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)


def _masses(variant: Variant, metrics: Sequence[str], steps: Sequence[int]) -> list[Html]:
    names = [metric for metric in metrics if metric.startswith(MASS)]
    lines = [
        Line(name.removeprefix(MASS), mean(variant.values(name, steps)), i)
        for i, name in enumerate(names)
    ]
    if not lines:
        return []
    note = "The share of the weight that each kind of recording has."
    whole = {"note": note, "limits": (0.0, 1.0), "legend": True}
    return [Chart("Weight by source", np.array(steps), lines, **whole).html()]
