"""The page of an audit."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from lobsdice.data.audit import Audit
from lobsdice.data.audit.coverage import FACTOR, Coverage
from lobsdice.data.ends import Endings
from lobsdice.errors import plural
from lobsdice.report.charts import Chart, Line
from lobsdice.report.html import Column, Html, document, facts, join, section, table, tag

#: The page shows at most so many rows of a table, curves, and points of a curve.
MOST_ROWS, MOST_CURVES, MOST_POINTS = 30, 30, 400
#: Ends of the logarithmic axis of the ratios.
LIMITS = (0.25, 32.0)


def page(audit: Audit) -> str:
    """Return the whole page."""
    report = audit.report()
    numbers = ("coverage", "discriminator", "sources", "expert", "offline")
    return document(
        f"Audit: {audit.verdict}",
        tag("p", "lobsdice audit", class_="eyebrow"),
        tag("h1", audit.verdict.capitalize(), class_=verdict_class(audit)),
        reasons(audit),
        section("How episodes end", ends(audit.ends)),
        section("Along the demonstrations", curves(audit.coverage)),
        section("Longest uncovered parts", rows_of(audit.uncovered, "Longest uncovered parts")),
        section("Closest offline episodes", rows_of(audit.closest, "Closest offline episodes")),
        section("Numbers", (join(tag("h3", n), facts(report[n], label=n)) for n in numbers)),
    )


def verdict_class(audit: Audit) -> str:
    """Return the style-sheet class that colours the verdict."""
    return audit.verdict.replace(" ", "-")


def reasons(audit: Audit) -> Html:
    """Say what the verdict rests on, whether transitions leak, and what else looks wrong."""
    if not audit.leaked:
        leak = tag("p", "No transition of the demonstrations occurs in the offline data.")
    else:
        leak = tag(
            "p",
            tag("strong", "Leak: ", class_="bad"),
            f"{audit.leaked:,} transitions of the demonstrations occur in the offline data, with "
            "their actions.",
        )
    found = {
        "Copies": audit.copies,
        "Rates": [audit.rate.remark] if audit.rate else [],
        "Units": [unit.remark for unit in audit.units],
        "Actions": [target.remark for target in audit.targets],
        "Fill values": [fill.remark for fill in audit.fills],
    }
    bad = (
        tag("p", tag("strong", f"{name}: ", class_="bad"), f"{remark}.")
        for name, remarks in found.items()
        for remark in remarks
    )
    advice = tag("p", tag("strong", "Method: "), f"{audit.advice.sentence}.")
    return join(tag("p", f"{audit.reason}."), leak, bad, advice)


def ends(found: Endings) -> Html:
    """Say how episodes end, what training takes to follow, and what is suspicious."""
    sentences = (found.summary, found.reading, *found.remarks)
    return join(
        (tag("p", f"{sentence[0].upper()}{sentence[1:]}.") for sentence in sentences),
        (tag("p", tag("strong", "Ends: ", class_="bad"), f"{w}.") for w in found.warnings),
    )


def curves(coverage: Coverage, most: int = MOST_CURVES) -> Html:
    """Draw the distance of each demonstration to the offline data, step by step."""
    episodes = np.unique(coverage.episode)
    rest = len(episodes) - most
    explained = (
        "The distance to the nearest offline transition, divided by the spacing of the offline "
        f"data there, on a logarithmic axis. Above {FACTOR:g}, the dashed line, a transition is "
        "uncovered."
    )
    drawn = tag(
        "div", (_curve(coverage, i) for i in episodes[:most].tolist()), class_="charts wide"
    )
    more = tag("p", f"Not drawn: {plural(rest, 'more demonstration')}.", class_="quiet")
    return join(tag("p", explained), drawn, more if rest > 0 else None)


def _curve(coverage: Coverage, episode: int) -> Html:
    mine = coverage.episode == episode
    ratio, uncovered, step = coverage.ratio[mine], coverage.uncovered[mine], coverage.step[mine]
    # Several steps may share a point; it shows the worst.
    starts = np.unique(np.linspace(0, len(ratio), min(len(ratio), MOST_POINTS) + 1).astype(int))
    worst = np.maximum.reduceat(ratio, starts[:-1])
    return Chart(
        f"Demonstration {coverage.names[episode] if coverage.names else episode}",
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
    """Yield the first and the last step of each stretch of flags that are set."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield float(step[first]), float(min(step[end - 1] + every, step[-1]))


def rows_of(found: Iterable[Any], label: str, most: int = MOST_ROWS) -> Html:
    """Return a table of dataclasses, one a row."""
    rows = [{**asdict(one), "episode": one.name} for one in found]
    columns = [Column(key) for key in rows[0] if key != "name"] if rows else []
    return table(columns, rows, label=label, most=most)
