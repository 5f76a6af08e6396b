"""Several runs side by side as one HTML page."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lobsdice.pages.charts import colour_class
from lobsdice.pages.html import Column, Html, document, join, plural, section, table, tag, words
from lobsdice.reporting.curves import PERFORMANCE, charts, groups, shows_ranges, title
from lobsdice.reporting.page import footer, notices
from lobsdice.reporting.recorded import Recorded, Variant, differences, flatten


def page(runs: Sequence[Recorded]) -> str:
    """The whole page."""
    names = names_of(runs)
    variants = [v for run, name in zip(runs, names, strict=True) for v in _labelled(run, name)]
    metrics = list(dict.fromkeys(metric for run in runs for metric in run.metrics))
    return document(
        f"Comparison of {len(runs)} runs",
        tag("p", "lobsdice report", class_="eyebrow"),
        tag("h1", f"{plural(len(runs), 'run')} side by side"),
        tag("p", _scope(variants), class_="lead"),
        (notices(run) for run in runs),
        section("Outcomes", _outcomes(variants, metrics)),
        section("What differs", _differences(runs, names)),
        section("Learning curves", _legend(variants), charts(variants, metrics)),
        footer(),
    )


def names_of(runs: Sequence[Recorded]) -> list[str]:
    """Folder names; whole paths where names would not tell the runs apart."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def _labelled(run: Recorded, name: str) -> list[Variant]:
    if len(run.variants) == 1:
        return [Variant(name, run.rows, run.variants[0].runs)]
    return [Variant(f"{name}: {v.label}", v.rows, v.runs) for v in run.variants]


def _scope(variants: Sequence[Variant]) -> str:
    seeds = {len(variant.runs) for variant in variants}
    if len(seeds) == 1:
        return f"Each with {plural(seeds.pop(), 'seed')}. Values are means over seeds."
    return f"With {min(seeds)} to {max(seeds)} seeds. Values are means over seeds."


def _legend(variants: Sequence[Variant]) -> Html:
    """Which colour is which run."""
    items = (tag("li", _name(i, variant)) for i, variant in enumerate(variants))
    shaded = "; shaded is the range from the worst to the best seed" * shows_ranges(variants)
    return join(
        [tag("p", f"Lines are means over seeds{shaded}."), tag("ul", items, class_="legend")]
    )


def _name(number: int, variant: Variant) -> Html:
    return join([tag("i", class_=f"key {colour_class(number)}"), variant.label])


def _outcomes(variants: Sequence[Variant], metrics: Sequence[str]) -> Html:
    """The last value of everything but losses, and the best return."""
    kinds = groups(metrics)
    measures = kinds.get("Without an environment", [])
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
        {"run": _name(i, variant), **_outcome(variant, tried, measures)}
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


def _differences(runs: Sequence[Recorded], names: Sequence[str]) -> Html:
    """Settings that are not the same in all runs, a line for each."""
    found = differences([_settings(run) for run in runs])
    if not found:
        return tag("p", "Nothing but what lies outside their settings.")
    columns = [Column("setting"), *(Column(str(i), name) for i, name in enumerate(names))]
    rows = [
        {"setting": _setting(key), **{str(i): words(v) for i, v in enumerate(values)}}
        for key, values in found.items()
    ]
    return table(columns, rows, label="Differing settings")


def _setting(key: str) -> str:
    """In words: `algorithm.ratio_penalty` is the ratio penalty, `algorithm.name` the algorithm."""
    part, _, rest = key.partition(".")
    return (part if rest in ("", "name") else rest).replace("_", " ")


def _settings(run: Recorded) -> dict[str, Any]:
    """All that determines the outcome, except what each of the run's own variants sets."""
    first = run.runs[0]
    told = {k: run.settings.get(k) for k in ("task", "expert", "offline", "labelled", "mixture")}
    shared = {"algorithm": first["algorithm"], "options": first["options"]}
    data = [data["fingerprint"][:8] for data in run.config["run"]["data"]]
    return {
        **flatten(shared),
        **told,
        **flatten({"preparation": run.settings.get("preparation", {})}),
        "seeds": [one["seed"] for one in run.runs],
        "data's fingerprint": data,
        **run.config["made_with"],
    }
