"""The findings of an audit as one HTML page that needs nothing else."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice.data.audit import Audit
from lobsdice.data.audit.coverage import FACTOR, Coverage
from lobsdice.data.files import atomic
from lobsdice.errors import plural
from lobsdice.report.charts import Chart, Line
from lobsdice.report.html import Column, Html, document, facts, join, section, table, tag

#: Rows of a table, curves, and points of a curve that a page shows at most.
MOST_ROWS, MOST_CURVES, MOST_POINTS = 30, 30, 400
#: Ratios are drawn on a logarithmic axis between these.
LIMITS = (0.25, 32.0)


def write_page(path: str | Path, audit: Audit) -> None:
    """Write the page, all of it or none."""
    with atomic(path) as temporary:
        temporary.write_text(page(audit), encoding="utf-8")


def page(audit: Audit) -> str:
    """The whole page."""
    report = audit.report()
    numbers = ("coverage", "discriminator", "sources", "expert", "offline")
    return document(
        f"Audit: {audit.verdict}",
        tag("p", "lobsdice audit", class_="eyebrow"),
        tag("h1", audit.verdict.capitalize(), class_=verdict_class(audit)),
        reasons(audit),
        section("Along the demonstrations", curves(audit.coverage)),
        section("Longest uncovered parts", rows_of(audit.uncovered, "Longest uncovered parts")),
        section("Closest offline episodes", rows_of(audit.closest, "Closest offline episodes")),
        section("Numbers", (join([tag("h3", n), facts(report[n], label=n)]) for n in numbers)),
    )


def verdict_class(audit: Audit) -> str:
    """The verdict's colour in the style sheet."""
    return audit.verdict.replace(" ", "-")


def reasons(audit: Audit) -> Html:
    """The numbers that the verdict rests on, whether anything leaks, and what rates look like."""
    if not audit.leaked:
        leak = tag("p", "No demonstrated transition occurs in the offline data.")
    else:
        leak = tag(
            "p",
            tag("strong", "Leak: ", class_="bad"),
            f"{audit.leaked:,} demonstrated transitions occur in the offline data, with their "
            "actions.",
        )
    rate = audit.rate and tag("p", tag("strong", "Rates: ", class_="bad"), f"{audit.rate.remark}.")
    return join([tag("p", f"{audit.reason}."), leak, rate])


def curves(coverage: Coverage, most: int = MOST_CURVES) -> Html:
    """How far each demonstration is from the offline data, step by step."""
    episodes = np.unique(coverage.episode)
    rest = len(episodes) - most
    explained = (
        "Distance to the offline data in multiples of its own spacing (logarithmic); above the "
        f"dashed line, {FACTOR:g}, a transition is uncovered."
    )
    return join(
        [
            tag("p", explained),
            tag(
                "div", (_curve(coverage, i) for i in episodes[:most].tolist()), class_="charts wide"
            ),
            tag("p", f"Not drawn: {plural(rest, 'more demonstration')}.", class_="quiet")
            if rest > 0
            else None,
        ]
    )


def _curve(coverage: Coverage, episode: int) -> Html:
    mine = coverage.episode == episode
    ratio, uncovered, step = coverage.ratio[mine], coverage.uncovered[mine], coverage.step[mine]
    # Of the steps that share a point the worst is shown.
    starts = np.unique(np.linspace(0, len(ratio), min(len(ratio), MOST_POINTS) + 1).astype(int))
    worst = np.maximum.reduceat(ratio, starts[:-1])
    return Chart(
        f"Demonstration {episode}",
        step[starts[:-1]],
        [Line("distance", worst)],
        limits=LIMITS,
        log=True,
        threshold=FACTOR,
        shaded=list(_stretches(uncovered, step, coverage.every)),
        value=f"{uncovered.mean():.1%} uncovered",
        flat=True,
    ).html()


def _stretches(flags: np.ndarray, step: np.ndarray, every: int) -> Iterable[tuple[float, float]]:
    """The first and last steps between which all flags are set."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield float(step[first]), float(min(step[end - 1] + every, step[-1]))


def rows_of(found: Iterable[Any], label: str, most: int = MOST_ROWS) -> Html:
    """A table of findings, of which each is a dataclass."""
    rows = [asdict(one) for one in found]
    columns = [Column(key) for key in rows[0]] if rows else []
    return table(columns, rows, label=label, most=most)
