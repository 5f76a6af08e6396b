"""Reports on standard output: JSON for programs, tables for people."""

import json
from typing import Any

from rich import box
from rich.table import Table

from lobsdice import console

Report = dict[str, Any]


def print_json(report: Report | list[Report]) -> None:
    """Nothing but valid JSON."""
    print(json.dumps(report, indent=2, allow_nan=False))


def print_reports(reports: list[Report]) -> None:
    """All that is known about each file."""
    for report in reports:
        print_facts(report["path"], report)
        _print_columns("observation", report["observations"])
        _print_columns("action", report["actions"])


def print_facts(title: str, report: Report) -> None:
    """A table of names and values."""
    table = _table(title)
    table.add_column(style="bold")
    table.add_column()
    table.show_header = False
    for key, value in report.items():
        if key not in ("path", "observations", "actions", "warnings") and value is not None:
            table.add_row(key.replace("_", " "), _text(value))
    console.out.print(table)


def print_summary(reports: list[Report]) -> None:
    """One line a file."""
    table = _table(None)
    table.add_column("file")
    for name in ("episodes", "steps", "terminated", "return"):
        table.add_column(name, justify="right")
    for report in reports:
        counts = (f"{report[key]:,}" for key in ("episodes", "steps", "terminated"))
        table.add_row(report["path"], *counts, _spread(report["returns"]))
    console.out.print(table)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _print_columns(name: str, columns: list[Report] | None) -> None:
    if columns is None:
        return
    table = _table(None)
    table.add_column(name, justify="right")
    for key in ("minimum", "mean", "deviation", "maximum"):
        table.add_column(key, justify="right")
    for i, column in enumerate(columns):
        table.add_row(str(i), *(_number(value) for value in column.values()))
    console.out.print(table)


def _table(title: str | None) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        if "minimum" in value:
            ends = f"{_number(value['minimum'])} to {_number(value['maximum'])}"
            return f"{_spread(value)} ({ends})"
        if "kind" in value:
            return _space(value)
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _space(space: Report) -> str:
    if space["kind"] == "discrete":
        return f"{space['count']} discrete actions"
    lows, highs = (sorted(set(space[key])) for key in ("low", "high"))
    size = plural(len(space["low"]), "real number")
    if len(lows) == len(highs) == 1:
        return f"{size} in [{_number(lows[0])}, {_number(highs[0])}]"
    return f"{size}, each with its own bounds"


def _spread(statistics: Report | None) -> str:
    if statistics is None:
        return ""
    return f"{_number(statistics['mean'])} ± {_number(statistics['deviation'])}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
