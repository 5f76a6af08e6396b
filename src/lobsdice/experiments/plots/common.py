"""Style, looks of curves, and files: shared by all figures."""

import csv
from collections.abc import Iterable
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from lobsdice.data.files import atomic
from lobsdice.errors import LobsDICEError

Rows = list[dict[str, str]]
FORMATS = ("png", "svg")
#: The same table gives the same bytes; text stays text.
STYLE: Any = {
    "svg.hashsalt": "lobsdice",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Look(NamedTuple):
    """The colour and marker of a curve."""

    colour: str
    marker: str = "o"


#: Algorithms that look the same in every figure. The first colours are those of Okabe and Ito,
#: which colour-blind readers can tell apart.
LOOKS = {
    "lobsdice": Look("#0072b2"),
    "bc": Look("#7f7f7f", "v"),
    "iqlearn": Look("#d55e00"),
    "opolo": Look("#009e73", "P"),
    "demodicefo": Look("#cc79a7", "D"),
    "bco": Look("#e69f00", "^"),
    "smodice": Look("#56b4e9", "s"),
    "rce": Look("#8c564b"),
    "lobsdice_mu": Look("#000000"),
    "demodice": Look("#9467bd"),
    "recoil": Look("#b5651d", "X"),
    "recoilfo": Look("#e377c2", "X"),
    "dilo": Look("#17becf", "h"),
    "seabo": Look("#2ca02c", "<"),
    "otr": Look("#393b79", ">"),
    "tailo": Look("#ad494a", "p"),
    "nearest_trajectory": Look("#637939", "*"),
    "iql": Look("#a55194", "d"),
    "optidice": Look("#843c39", "8"),
}
#: Colours of curves in general, in their order.
COLOURS = (*(look.colour for look in LOOKS.values()), "#bcbd22")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name: that of the algorithm, or one of the colours that are left."""
    names = list(names)
    known = {name: LOOKS[name.lower()] for name in names if name.lower() in LOOKS}
    used = {look.colour for look in known.values()}
    left = cycle([colour for colour in COLOURS if colour not in used] or COLOURS)
    return {name: known.get(name) or Look(next(left)) for name in names}


def read(path: str | Path, columns: set[str]) -> Rows:
    """The rows of a CSV file; raise if it lacks one of the columns."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    missing = columns - set(rows[0] if rows else ())
    if missing:
        raise LobsDICEError(f"{path}: no column {', '.join(sorted(missing))}")
    return rows


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG."""
    paths = [stem.with_suffix(f".{name}") for name in FORMATS]
    for path, name in zip(paths, FORMATS, strict=True):
        metadata = {"Date": None} if name == "svg" else {}
        with atomic(path) as temporary, matplotlib.rc_context(STYLE):
            figure.savefig(temporary, format=name, dpi=160, metadata=metadata)
    return paths


def arrange(figure: Figure) -> None:
    """Fix the layout of a figure, so that it is the same in all formats."""
    figure.set_layout_engine("constrained")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def legend(figure: Figure, columns: int | None = None) -> None:
    """Name the curves of all panels above them. No panel needs to have all curves."""
    found = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes)
    named = {label: handle for pairs in found for handle, label in pairs}
    if not named:
        return
    lines = ceil(len(named) / (columns or len(named)))
    ncols = ceil(len(named) / lines)
    figure.legend(
        named.values(), named.keys(), loc="outside upper center", ncols=ncols, frameon=False
    )


def distinct(rows: Rows, column: str) -> list[str]:
    """The values of a column, each once."""
    return list(dict.fromkeys(row[column] for row in rows))


def numbers(rows: Rows, column: str) -> np.ndarray:
    """The values of a column as numbers."""
    return np.array([float(row[column]) for row in rows])
