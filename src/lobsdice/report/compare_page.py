"""Several runs side by side as one HTML page."""

from collections.abc import Sequence
from typing import Any

from lobsdice.errors import plural
from lobsdice.report.curves import charts
from lobsdice.report.html import Column, Html, document, section, table, tag, words
from lobsdice.report.recorded import Recorded, Variant, differences, flatten
from lobsdice.report.run_page import footer, notices
from lobsdice.report.scores import outcomes


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
        section("Outcomes", outcomes(variants, metrics)),
        section("What differs", _differences(runs, names)),
        section("Learning curves", charts(variants, metrics)),
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


def _differences(runs: Sequence[Recorded], names: Sequence[str]) -> Html:
    """Settings that are not the same in all runs, a line for each."""
    found = differences([_settings(run) for run in runs])
    if not found:
        return tag("p", "Nothing but what lies outside their settings.")
    columns = [Column("setting"), *(Column(str(i), name) for i, name in enumerate(names))]
    rows = [
        {"setting": _setting(name), **{str(i): words(v) for i, v in enumerate(values)}}
        for name, values in found.items()
    ]
    return table(columns, rows, label="Differing settings")


def _setting(name: str) -> str:
    """In words: `algorithm.ratio_penalty` is the ratio penalty, `algorithm.name` the algorithm."""
    part, _, rest = name.partition(".")
    return (part if rest in ("", "name") else rest).replace("_", " ")


def _settings(run: Recorded) -> dict[str, Any]:
    """All that determines the outcome, except what each of the run's own variants sets."""
    first = run.runs[0]
    shared = {"algorithm": first["algorithm"], "options": first["options"]}
    data = [data["fingerprint"][:8] for data in run.config["run"]["data"]]
    return {
        **flatten(shared),
        **run.named,
        **flatten({"preparation": run.settings.get("preparation", {})}),
        "seeds": [one["seed"] for one in run.runs],
        "data's fingerprint": data,
        **run.config["made_with"],
    }
