"""The page of one run folder."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from lobsdice import __version__
from lobsdice.algorithms import ALGORITHMS
from lobsdice.data.audit import Audit
from lobsdice.data.episodes import Episodes
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.errors import plural
from lobsdice.report import clips, rehearsal, rewards, sentences, weights
from lobsdice.report.audit_page import curves as coverage_curves, reasons, rows_of, verdict_class
from lobsdice.report.curves import charts
from lobsdice.report.gather import Parts
from lobsdice.report.html import Column, Html, document, facts, join, section, table, tag, words
from lobsdice.report.run_record import RunRecord
from lobsdice.report.scores import Summary, brief, outcomes, scores, summarise
from lobsdice.training.engine import Options
from lobsdice.training.folder import describe

#: The coverage of at most so many demonstrations is drawn, and rows of the audit's tables.
MOST_CURVES, MOST_ROWS = 4, 8


def page(found: Parts) -> str:
    """Return the whole page."""
    run = found.run
    summary = summarise(run.variants[0], run.metrics) if len(run.variants) == 1 else None
    filmed = {"The policy at work": _or_reason(found.clips, clips.section)}
    sections = {
        # A clip comes first; the reason why there is none comes late.
        **({} if isinstance(found.clips, str) else filmed),
        "Learning curves": charts(run.variants, run.metrics) if run.rows else None,
        "Scores": _scores(run, summary),
        "Rehearsal": _or_reason(found.rehearsals, rehearsal.section),
        "What it imitates": _or_reason(found.weights, weights.section),
        "Rewards of the logs": found.rewards and _or_reason(found.rewards, rewards.section),
        "Coverage of the demonstrations": _or_reason(found.audit, _coverage),
        **filmed,
        "How to repeat it": _repeat(run),
    }
    shown = {title: content for title, content in sections.items() if content is not None}
    return document(
        f"{run.name}: {' and '.join(run.algorithms)}",
        _head(found, summary),
        tag("nav", (tag("a", title, href=f"#{_anchor(title)}") for title in shown)),
        (section(title, content, name=_anchor(title)) for title, content in shown.items()),
        footer(),
    )


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _or_reason(part: Any, show: Callable[[Any], Html]) -> Html:
    """Show a part, or the reason why it is missing."""
    return _missing(part) if isinstance(part, str) else show(part)


def _missing(reason: str) -> Html:
    return tag("p", f"Not shown: {reason}.", class_="notice")


def _scores(run: RunRecord, summary: Summary | None) -> Html | None:
    if len(run.variants) > 1:
        return outcomes(run.variants, run.metrics)
    return summary and scores(run.variants[0], run.metrics)


def _head(found: Parts, summary: Summary | None) -> Html:
    run, expert, offline = found.run, *_recordings(found)
    said = (sentences.progress(run), sentences.outcome(summary, variants=len(run.variants)))
    return tag(
        "header",
        tag("p", "lobsdice report", class_="eyebrow"),
        tag("h1", run.name),
        tag("p", sentences.learned(run, expert, offline), class_="lead"),
        tag("p", " ".join(said), class_="lead"),
        notices(run),
        tag("div", _tiles(found, summary), class_="tiles"),
    )


def _recordings(found: Parts) -> tuple[Episodes | None, Episodes | None]:
    data = found.data
    return (None, None) if isinstance(data, str) else (data.expert, data.offline)


def notices(run: RunRecord) -> Html:
    """Return warnings: failures, damage, and how to continue."""
    said = [*run.failures.values(), *([run.damage] if run.damage else [])]
    if not run.finished and run.settings:
        said.append(f"Continue it with `lobsdice resume {shlex.quote(str(run.path))}`")
    return join(*(tag("p", f"{text}.", class_="notice bad") for text in said))


def _tiles(found: Parts, summary: Summary | None) -> Iterable[Html]:
    if summary is not None:
        name = summary.metric
        interval = f" (95 %: {summary.interval})" if summary.runs > 1 else ""
        policies = "policies" if summary.runs > 1 else "policy"
        yield _tile(brief(summary.last), f"{name} of the last {policies}{interval}")
        yield _tile(brief(summary.best), f"best {name} during training")
    run = found.run
    good = "good" if run.finished and not run.failures else "some"
    done = "finished" if run.finished else f"{run.done / run.planned:.0%} done"
    failed = plural(len(run.failures), "failure")
    yield _tile(done, f"{plural(run.done, 'step')}, {failed}", good)
    if isinstance(found.weights, weights.Weights):
        half, total = found.weights.half, len(found.weights.share)
        yield _tile(f"{half:,} of {total:,}", "episodes hold half of the weight")
    if isinstance(found.audit, Audit):
        share = f"{1 - found.audit.uncovered_share:.1%} of the demonstrated transitions"
        yield _tile(found.audit.verdict, share, verdict_class(found.audit))


def _tile(value: str, label: str, kind: str | None = None) -> Html:
    return tag("div", tag("b", value, class_=kind), tag("span", label), class_="tile")


def _coverage(found: Audit) -> Html:
    parts = "Longest uncovered parts"
    closest = "Closest offline episodes, counted over all files"
    tables = {
        parts: rows_of(found.uncovered, parts, MOST_ROWS),
        closest: rows_of(found.closest, closest, MOST_ROWS),
    }
    return join(
        tag("p", tag("strong", f"{found.verdict.capitalize()}.", class_=verdict_class(found))),
        reasons(found),
        coverage_curves(found.coverage, MOST_CURVES),
        _side_by_side(tables),
        tag("h3", "Second opinion: a discriminator"),
        facts(found.report()["discriminator"], label="Discriminator"),
    )


def _side_by_side(parts: Mapping[str, Html]) -> Html:
    cells = (tag("div", tag("h3", title), part) for title, part in parts.items())
    return tag("div", cells, class_="charts wide")


def _repeat(run: RunRecord) -> Html:
    command = run.about.get("command")
    line = tag("pre", shlex.join(command)) if command else _missing(NO_COMMAND)
    made_with = facts(run.config["made_with"], label="Versions")
    source = _datasets(run) if run.origins else facts(_data(run), label="Data")
    data = join(source, tag("h3", "Made with"), made_with)
    return join(line, _side_by_side({"Settings": _settings(run), "Data": data}))


def _data(run: RunRecord) -> dict[str, Any]:
    """Return the origin of the data, its preparation and its fingerprint."""
    env, preparation = run.settings.get("env"), run.settings.get("preparation", {})
    everything = {**run.named, "env": env, **preparation}
    known = {key: value for key, value in everything.items() if value}
    return known | {"fingerprint": run.fingerprints}


def _datasets(run: RunRecord) -> Html:
    """Return a table of the datasets of an experiment."""
    rows = []
    for number, fingerprint in enumerate(run.fingerprints):
        runs = [i for i, one in enumerate(run.runs) if one["data"] == number]
        origin = run.origins[runs[0]]
        mixture = dict(zip(SOURCES, origin.mixture, strict=True))
        told = {"runs": words(runs), **origin._asdict(), **mixture}
        rows.append(told | {"fingerprint": fingerprint[:8]})
    pieces = ["fragment"] if any(origin.fragment for origin in run.origins) else []
    names = ("runs", "task", "demonstrations", *SOURCES, *pieces, "subsample", "fingerprint")
    return table([Column(name) for name in names], rows, label="Data")


NO_COMMAND = "the run was not made by `lobsdice train`"


def _settings(run: RunRecord) -> Html:
    """Return a table of all settings and their defaults; other values are emphasised."""
    first = run.runs[0]
    kinds = {kind.__name__: kind for kind in ALGORITHMS.values()}
    kind = kinds.get(first["algorithm"]["name"])
    usual = {**describe(Options()), **(describe(kind()) if kind else {})}
    values = {**first["options"], **first["algorithm"], "seeds": [r["seed"] for r in run.runs]}
    rows = [
        {"setting": name.replace("_", " "), "value": _changed(value, usual.get(name, value))}
        | {"default": usual.get(name)}
        for name, value in values.items()
        if name != "name"
    ]
    return table([Column("setting"), Column("value"), Column("default")], rows, label="Settings")


def _changed(value: Any, default: Any) -> Any:
    return value if value == default else tag("strong", words(value))


def footer() -> Html:
    """Return the date and the version of lobsdice."""
    return tag("footer", f"Written on {date.today():%d %B %Y} by lobsdice {__version__}.")
