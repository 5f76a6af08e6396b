"""The findings of an audit as one HTML page that needs nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice.auditing import Audit
from lobsdice.auditing.coverage import FACTOR, Coverage
from lobsdice.files import atomic

#: Rows of a table, curves, and points of a curve that a page shows at most.
MOST_ROWS, MOST_CURVES, MOST_POINTS = 30, 30, 400
WIDTH, HEIGHT = 600, 80
#: Ratios are drawn on a logarithmic axis between these.
LOWEST, HIGHEST = 0.25, 32.0

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #ccc; --bad: #c0392b;
  --good: #1e7d45; --some: #a66300; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181b; --line: #444;
  --bad: #ff7b6b; --good: #5fd38d; --some: #ffb84d; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: auto; padding: 1rem; }
.covered { color: var(--good); } .partly-covered { color: var(--some); }
.not-covered, .leak { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } polyline { fill: none; stroke: currentColor; }
line { stroke: var(--bad); stroke-dasharray: 4; } rect { fill: var(--bad); opacity: .25; }
"""

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Audit</title>
"""


def write_page(path: str | Path, audit: Audit) -> None:
    """Write the page, all of it or none."""
    with atomic(path) as temporary:
        temporary.write_text(page(audit), encoding="utf-8")


def page(audit: Audit) -> str:
    """The whole page."""
    report = audit.report()
    return "\n".join(
        [
            f"{HEAD}<style>{STYLE}</style></head><body>",
            f'<h1 class="{audit.verdict.replace(" ", "-")}">{_text(audit.verdict.capitalize())}'
            "</h1>",
            f"<p>{_text(audit.reason)}.</p>",
            _leak(audit.leaked),
            "<h2>Along the demonstrations</h2>",
            f"<p>Distance to the offline data in multiples of its own spacing (logarithmic); "
            f"above the dashed line, {FACTOR:g}, a transition is uncovered.</p>",
            *_curves(audit.coverage),
            "<h2>Longest uncovered parts</h2>",
            _table(map(asdict, audit.uncovered)),
            "<h2>Closest offline episodes</h2>",
            _table(map(asdict, audit.closest)),
            "<h2>Numbers</h2>",
            *(_facts(name, report[name]) for name in ("coverage", "discriminator", "sources")),
            *(_facts(name, report[name]) for name in ("expert", "offline")),
            "</body></html>",
        ]
    )


def _leak(count: int) -> str:
    if not count:
        return "<p>No demonstrated transition occurs in the offline data.</p>"
    return (
        f'<p class="leak"><strong>Leak:</strong> {count} demonstrated transitions occur in the '
        "offline data, with their actions.</p>"
    )


def _curves(coverage: Coverage) -> Iterable[str]:
    episodes = np.unique(coverage.episode)
    for episode in episodes[:MOST_CURVES]:
        mine = coverage.episode == episode
        share = coverage.uncovered[mine].mean()
        yield f"<p>Demonstration {episode}: {share:.1%} uncovered</p>"
        yield _curve(coverage.ratio[mine], coverage.uncovered[mine])
    if len(episodes) > MOST_CURVES:
        yield f"<p>{len(episodes) - MOST_CURVES} more are not drawn.</p>"


def _curve(ratio: np.ndarray, uncovered: np.ndarray) -> str:
    # Of the steps that share a point the worst is shown.
    starts = np.unique(np.linspace(0, len(ratio), min(len(ratio), MOST_POINTS) + 1).astype(int))
    worst = np.maximum.reduceat(ratio, starts[:-1])
    x = (starts[:-1] + starts[1:]) / 2 / len(ratio) * WIDTH
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, _height(worst), strict=True))
    limit = float(_height(np.array([FACTOR]))[0])
    bars = "".join(
        f'<rect x="{a * WIDTH / len(ratio):.1f}" y="0" height="{HEIGHT}" '
        f'width="{(b - a) * WIDTH / len(ratio):.1f}"/>'
        for a, b in _stretches(uncovered)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{bars}'
        f'<line x1="0" x2="{WIDTH}" y1="{limit:.1f}" y2="{limit:.1f}"/>'
        f'<polyline points="{points}"/></svg>'
    )


def _stretches(flags: np.ndarray) -> Iterable[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _height(ratio: np.ndarray) -> np.ndarray:
    where = np.log(np.clip(ratio, LOWEST, HIGHEST) / LOWEST) / np.log(HIGHEST / LOWEST)
    return HEIGHT * (1 - where)


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{_text(key.replace('_', ' '))}</th>" for key in rows[0])
    body = "".join(_row(row.values()) for row in rows[:MOST_ROWS])
    more = f"<p>{MOST_ROWS} of {len(rows)} are shown.</p>" if len(rows) > MOST_ROWS else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>{more}'


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    rows = "".join(_row((key.replace("_", " "), value)) for key, value in facts.items())
    return f'<h3>{_text(title)}</h3><div class="scroll"><table>{rows}</table></div>'


def _row(values: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in values)}</tr>"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_text(key)} {_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(map(_text, value)) or "none"
    return escape("" if value is None else str(value))
