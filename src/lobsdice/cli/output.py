"""Reports on standard output: JSON for programs, tables for people."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from lobsdice import console
from lobsdice.errors import plain, plural

Report = dict[str, Any]

#: Columns of a table of features.
STATISTICS = ("min", "mean", "std", "max")

#: Keys of a report that are not shown among its facts.
NOT_FACTS = ("path", "observations", "observation_names", "warnings")


def print_json(report: Report | list[Report]) -> None:
    """Print valid JSON, with null in place of NaN and infinity."""
    print(json.dumps(_finite(report), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_description(report: Report) -> None:
    """Print the facts about a file, then a line for each feature of its states and actions."""
    print_facts(report["path"], report)
    _print_features("observation", report["observations"], report["observation_names"])
    if report["actions"] and "mean" in report["actions"]:
        _print_features("action", report["actions"], report["actions"].get("names"))


def print_facts(title: str, report: Report) -> None:
    """Print a table of names and values."""
    table = _table(title)
    table.show_header = False
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in report.items():
        if key not in NOT_FACTS and value is not None:
            _add_row(table, key.replace("_", " "), _text(value))
    console.out.print(table)


def print_summary(reports: list[Report]) -> None:
    """Print one line for each file."""
    table = _table(None)
    table.add_column("file", overflow="fold")
    for name in ("episodes", "steps", "terminated", "return"):
        table.add_column(name, justify="right")
    for report in reports:
        counts = (f"{report[key]:,}" for key in ("episodes", "steps", "terminated"))
        _add_row(table, report["path"], *counts, _spread(report["returns"]))
    console.out.print(table)


def print_rows(rows: list[Report], columns: tuple[str, ...]) -> None:
    """Print a table."""
    table = _table(None)
    for name in columns:
        # One word a line keeps columns as narrow as their values.
        table.add_column(name.replace("_", "\n"), overflow="fold")
    for row in rows:
        _add_row(table, *(_text(row[name]) for name in columns))
    console.out.print(table)


def name_folders(folders: Sequence[str | Path], others: int) -> list[str]:
    """Return names of folders for a table whose other columns take so many characters.

    If a name is too long for the terminal, the folder in which all lie is printed before and left
    out of the names.
    """
    names = [str(folder) for folder in folders]
    if max(map(len, names), default=0) <= console.out.width - others:
        return names
    paths = [os.path.abspath(name) for name in names]
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    console.show(f"folders in {shared}:")
    return [os.path.relpath(path, shared) for path in paths]


def print_written(paths: list[Path]) -> None:
    """Print one line for each file that was written."""
    for path in paths:
        console.show(f"wrote {path}")


def _print_features(name: str, statistics: Report, names: list[str] | None = None) -> None:
    table = _table(None)
    table.add_column(name, justify="right")
    for key in STATISTICS:
        table.add_column(key, justify="right")
    columns = zip(*(statistics[key] for key in STATISTICS), strict=True)
    for i, values in enumerate(columns):
        _add_row(table, names[i] if names else str(i), *map(_number, values))
    console.out.print(table)


def _table(title: str | None) -> Table:
    title = title and plain(title)
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")


def _add_row(table: Table, *cells: str) -> None:
    table.add_row(*map(plain, cells))


def _text(value: Any) -> str:
    if not isinstance(value, dict):
        return _number(value) if isinstance(value, int | float) else str(value)
    if "kind" in value:
        return _actions(value)
    if "std" in value:
        return f"{_spread(value)} ({_number(value['min'])} to {_number(value['max'])})"
    return ", ".join(f"{key} {_text(item)}" for key, item in value.items())


def _actions(space: Report) -> str:
    if space["kind"] == "discrete":
        taken = f", taken: {_text(space['taken'])}" if "taken" in space else ""
        return f"{space['count']} discrete actions{taken}"
    size = plural(len(space["low"]), "real number")
    lows, highs = set(space["low"]), set(space["high"])
    if len(lows) == len(highs) == 1:
        return f"{size} in [{_number(*lows)}, {_number(*highs)}]"
    return f"{size}, with different bounds"


def _spread(statistics: Report | None) -> str:
    if statistics is None:
        return ""
    return f"{_number(statistics['mean'])} ± {_number(statistics['std'])}"


def _number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
