"""The page that compares several run folders."""

from collections.abc import Sequence
from typing import Any

from lobsdice.errors import plural
from lobsdice.report.curves import charts
from lobsdice.report.html import Column, Html, document, section, table, tag, words
from lobsdice.report.run_page import footer, notices
from lobsdice.report.run_record import RunRecord, Variant
from lobsdice.report.scores import outcomes
from lobsdice.training.settings import differences, flatten


def page(runs: Sequence[RunRecord]) -> str:
    """Return the whole page."""
    names = names_of(runs)
    variants = [v for run, name in zip(runs, names, strict=True) for v in _labelled(run, name)]
    metrics = list(dict.fromkeys(metric for run in runs for metric in run.metrics))
    return document(
        f"Comparison of {plural(len(runs), 'run folder')}",
        tag("p", "lobsdice report", class_="eyebrow"),
        tag("h1", f"{plural(len(runs), 'run folder')} side by side"),
        tag("p", _scope(variants), class_="lead"),
        (notices(run) for run in runs),
        section("Outcomes", outcomes(variants, metrics)),
        section("Differing settings", _differences(runs, names)),
        section("Learning curves", charts(variants, metrics)),
        footer(),
    )


def names_of(runs: Sequence[RunRecord]) -> list[str]:
    """Return the names of the folders, or their paths if names occur twice."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def _labelled(run: RunRecord, name: str) -> list[Variant]:
    if len(run.variants) == 1:
        return [Variant(name, run.rows, run.variants[0].runs)]
    return [Variant(f"{name}: {v.label}", v.rows, v.runs) for v in run.variants]


def _scope(variants: Sequence[Variant]) -> str:
    seeds = {len(variant.runs) for variant in variants}
    if len(seeds) == 1:
        return f"Each with {plural(seeds.pop(), 'seed')}. Values are means over seeds."
    return f"With {min(seeds)} to {max(seeds)} seeds. Values are means over seeds."


def _differences(runs: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """Return a table of the settings that differ."""
    found = differences([_settings(run) for run in runs])
    if not found:
        return tag("p", "No setting differs.")
    columns = [Column("setting"), *(Column(str(i), name) for i, name in enumerate(names))]
    rows = [
        {"setting": _setting(name), **{str(i): words(v) for i, v in enumerate(values)}}
        for name, values in found.items()
    ]
    return table(columns, rows, label="Differing settings")


def _setting(name: str) -> str:
    """Return a setting in words: `algorithm.ratio_penalty` is the ratio penalty."""
    part, _, rest = name.partition(".")
    return (part if rest in ("", "name") else rest).replace("_", " ")


def _settings(run: RunRecord) -> dict[str, Any]:
    """Return the settings of a run folder; of several variants, those of the first."""
    first, preparation = run.runs[0], dict(run.settings.get("preparation", {}))
    # In earlier versions this was an option of the data.
    options = {"terminal": preparation.pop("terminal", None), **first["options"]}
    return {
        **flatten({"algorithm": first["algorithm"], "options": options}),
        **run.named,
        **flatten({"preparation": preparation}),
        "seeds": [one["seed"] for one in run.runs],
        "data's fingerprint": [text[:8] for text in run.fingerprints],
        **run.config["made_with"],
    }
