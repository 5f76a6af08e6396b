"""The page about a sweep: the best settings, all of them at a glance, and what matters."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lobsdice.errors import LobsDICEError, plural
from lobsdice.experiments.settings import SETTINGS as SPACE
from lobsdice.experiments.sweep.study import JOURNAL
from lobsdice.experiments.sweep.sweep import IMPORTANCES, SETTINGS
from lobsdice.report.charts import SIZE, colour_class
from lobsdice.report.html import Column, Html, document, join, number, section, table, tag, words
from lobsdice.report.run_page import footer
from lobsdice.training.folder import read_rows

#: Settings that are drawn in the first colour, of those that trained to the end.
BEST = 3
Row = Mapping[str, Any]


def is_sweep(folder: Path) -> bool:
    """True for a folder that `lobsdice sweep` has written."""
    return (folder / JOURNAL).exists()


def page(folder: Path) -> str:
    """Return the whole page."""
    rows = read_rows(folder / SETTINGS)
    if not rows:
        raise LobsDICEError(f"{folder} has no {SETTINGS} yet: its first round has not ended")
    names = list(read_part(folder / SPACE, "space"))
    shares = read_part(folder / IMPORTANCES)
    return document(
        f"Sweep {folder.resolve().name}",
        tag("p", "lobsdice report", class_="eyebrow"),
        tag("h1", f"{plural(len(rows), 'setting')} of {_listed(names)}"),
        tag("p", _lead(rows, names), class_="lead"),
        section("Settings", _settings(rows, names)),
        section("All settings", parallel(rows, [*names, "value"])),
        section("What matters", _importances(shares)),
        footer(),
    )


def read_part(path: Path, key: str | None = None) -> dict[str, Any]:
    """The contents of a JSON file of a sweep, by names; or those under a key."""
    try:
        found = json.loads(path.read_text())
        return dict(found if key is None else found[key])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LobsDICEError(f"{path} cannot be read: {error}") from error


def _lead(rows: Sequence[Row], names: Sequence[str]) -> str:
    best, ended = rows[0], sum(row["state"] == "complete" for row in rows)
    if not ended:
        return "No setting has trained to the end yet."
    setting = ", ".join(f"{name} {words(best[name])}" for name in names)
    return (
        f"{plural(ended, 'setting')} trained to the end, the others were dropped early. The best "
        f"has the value {words(best['value'])}: {setting}. Its runs are in {best['folder']}."
    )


def _settings(rows: Sequence[Row], names: Sequence[str]) -> Html:
    keys = ("setting", "state", "step", "value", *names, "folder", "run")
    filled = [{key: row.get(key, "") for key in keys} for row in rows]
    return table([Column(key) for key in keys], filled, label="Settings", sortable=True)


def _importances(shares: Mapping[str, float]) -> Html:
    if not shares:
        return tag("p", "Too few settings trained to the end to tell.", class_="quiet")
    columns = [Column("name", "hyperparameter"), Column("share", bar=True, percent=True)]
    said = "The share of each hyperparameter in the differences of values (PED-ANOVA)."
    rows = [{"name": name, "share": share} for name, share in shares.items()]
    return join(tag("p", said), table(columns, rows, label="Importances"))


def parallel(rows: Sequence[Row], names: Sequence[str]) -> Html:
    """Draw each setting as a line through its values, one axis for each hyperparameter."""
    known = [row for row in rows if all(row.get(name, "") != "" for name in names)]
    if not known:
        return tag("p", "None.", class_="quiet")
    scales = {name: scale([row[name] for row in known]) for name in names}
    places = [SIZE * i / max(len(names) - 1, 1) for i in range(len(names))]
    best = [row["setting"] for row in known if row["state"] == "complete"][:BEST]

    def line(row: Row) -> Html:
        heights = [SIZE * (1 - scales[name][row[name]]) for name in names]
        points = " ".join(f"{x:.4g},{y:.4g}" for x, y in zip(places, heights, strict=True))
        chosen = row["setting"] in best
        kind = colour_class(0 if chosen else 1) + ("" if chosen else " thin")
        return tag(
            "polyline", tag("title", f"setting {row['setting']}"), points=points, class_=kind
        )

    # The best are drawn last, above the others.
    ordered = sorted(known, key=lambda row: row["setting"] in best)
    drawing = tag(
        "svg",
        map(line, ordered),
        viewBox=f"0 0 {SIZE} {SIZE}",
        preserveAspectRatio="none",
        role="img",
        aria_label="Each line is a setting",
    )
    axes = tag("p", "; ".join(_axis(name, known) for name in names), class_="quiet")
    said = f"Axes from left to right: {_listed(names)}. The {BEST} best settings stand out."
    return tag("figure", tag("div", drawing, class_="plot"), tag("figcaption", said), axes)


def scale(values: Sequence[Any]) -> dict[Any, float]:
    """The place of each value on its axis, from 0 to 1; numbers over two decades by logarithm."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values) or not all(map(math.isfinite, numbers)):
        different = sorted(set(values), key=str)
        return {value: i / max(len(different) - 1, 1) for i, value in enumerate(different)}
    low, high = min(numbers), max(numbers)
    if low == high:
        return dict.fromkeys(values, 0.5)
    if low > 0 and high / low > 100:
        return {v: math.log(v / low) / math.log(high / low) for v in numbers}
    return {v: (v - low) / (high - low) for v in numbers}


def _axis(name: str, rows: Sequence[Row]) -> str:
    values = [row[name] for row in rows]
    if all(isinstance(value, int | float) for value in values):
        return f"{name} from {number(min(values))} to {number(max(values))}"
    return f"{name}: {', '.join(sorted(set(map(str, values))))}"


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
