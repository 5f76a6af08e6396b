"""Charts as inline SVG, drawn by hand so that one file is enough and the numbers stay readable.

The script page.js shows the values from the JSON in `data-chart`. The drawing stretches to the
width of the page. Its labels are HTML outside the SVG, so that they keep their size on a phone.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lobsdice.report.html import Html, number, tag

#: Width and height of the drawing in its own units.
SIZE = 1000
#: Number of colours in the style sheet.
COLOURS = 8
#: The beginning is cut off if it makes the vertical range this many times larger.
CUT = 8.0
#: Share of the horizontal axis that counts as the beginning.
BEGINNING = 0.2
#: Curves are clipped to so many heights of the chart.
OUTSIDE = 9.0
#: Significant digits of the values in `data-chart`.
DIGITS = 7


@dataclass(frozen=True, eq=False)
class Line:
    """A curve: one value for each place on the horizontal axis, NaN for none."""

    name: str
    values: np.ndarray
    colour: int = 0
    thin: bool = False


@dataclass(frozen=True, eq=False)
class Band:
    """The area between two curves."""

    low: np.ndarray
    high: np.ndarray
    colour: int = 0


@dataclass(frozen=True)
class Axes:
    """The ends of both axes. Places are shares of the chart, from the left and from the top."""

    first: float
    last: float
    low: float
    high: float
    log: bool = False
    """True if the vertical axis is logarithmic."""

    def across(self, x: Any) -> Any:
        return (x - self.first) / (self.last - self.first)

    def down(self, values: Any) -> Any:
        if self.log:
            inside = np.clip(values, self.low, self.high)
            return np.log(self.high / inside) / math.log(self.high / self.low)
        return (self.high - values) / (self.high - self.low)

    def points(self, x: np.ndarray, values: np.ndarray) -> list[str]:
        """Return a curve in the drawing's units."""
        # Very large coordinates trouble browsers, and are not visible.
        down = SIZE * np.clip(self.down(values), -OUTSIDE, OUTSIDE)
        pairs = zip(SIZE * self.across(x), down, strict=True)
        return [f"{a:.4g},{b:.4g}" for a, b in pairs if np.isfinite(b)]


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over one horizontal axis."""

    title: str
    x: np.ndarray
    lines: Sequence[Line]
    x_label: str = "step"
    note: str = ""
    bands: Sequence[Band] = ()
    limits: tuple[float, float] | None = None
    """Ends of the vertical axis; None fits it to the curves."""
    log: bool = False
    threshold: float | None = None
    """Height of a dashed line."""
    shaded: Sequence[tuple[float, float]] = ()
    """Stretches of the horizontal axis to shade."""
    value: str | None = None
    """Text beside the title; None shows the last value, if there is one thick line."""
    legend: bool = False
    """True if the chart has a legend of its own."""
    flat: bool = False
    """True for half the usual height."""

    def html(self) -> Html:
        """Return a figure that is complete without the script, and that screen readers can read."""
        axes, cut = self._axes()
        plot = tag(
            "div",
            self._drawing(axes),
            (_y_label(axes, tick) for tick in self._levels(axes)),
            (_x_label(axes, tick) for tick in _ticks(axes.first, axes.last, most=3)),
            class_="plot",
            role="img",
            aria_label=self._summary(),
        )
        label = tag("div", self.x_label, class_="axis")
        kind = "chart flat" if self.flat else "chart"
        data = json.dumps(self._data(axes), allow_nan=False, separators=(",", ":"))
        return tag("figure", self._caption(cut), plot, label, class_=kind, data_chart=data)

    @property
    def _thick(self) -> list[Line]:
        return [line for line in self.lines if not line.thin]

    def _caption(self, cut: bool) -> Html:
        outside = "The beginning is outside the chart." if cut else ""
        note = " ".join(filter(None, [self.note, outside]))
        keys = (tag("span", key(line.colour), line.name) for line in self._thick)
        return tag(
            "figcaption",
            tag("b", self.title),
            tag("span", self.value or self._last(), class_="value"),
            tag("small", note) if note else None,
            tag("small", keys, class_="legend") if self.legend else None,
        )

    def _last(self) -> str:
        values = [line.values[np.isfinite(line.values)] for line in self._thick]
        return number(float(values[0][-1])) if len(values) == 1 and len(values[0]) else ""

    def _summary(self) -> str:
        parts = []
        for line in self._thick:
            there = np.flatnonzero(np.isfinite(line.values))
            ends = [
                f"{number(float(line.values[i]))} at {number(float(self.x[i]))}"
                for i in there[[0, -1] if len(there) else []]
            ]
            parts.append(
                f"{line.name} from {' to '.join(ends)}" if ends else f"{line.name} unknown"
            )
        return f"{self.title} by {self.x_label}: {'; '.join(parts)}"

    def _axes(self) -> tuple[Axes, bool]:
        """Return the axes, and True if the beginning is outside."""
        # Steps start at 0.
        first, last = min(0.0, float(self.x.min())), float(self.x.max()) or 1.0
        if self.limits is not None:
            return Axes(first, last, *self.limits, self.log), False
        curves = [line.values for line in self.lines]
        curves += [edge for band in self.bands for edge in (band.low, band.high)]
        whole = _extremes(curves)
        late = self.x > first + BEGINNING * (last - first)
        later = _extremes([curve[late] for curve in curves])
        cut = later[1] > later[0] and whole[1] - whole[0] > CUT * (later[1] - later[0])
        low, high = later if cut else whole
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return Axes(first, last, low - margin, high + margin, self.log), cut

    def _levels(self, axes: Axes) -> list[float]:
        """Return the labelled values of the vertical axis."""
        return _ticks(axes.low, axes.high, log=self.log, most=3 if self.flat else 5)

    def _drawing(self, axes: Axes) -> Html:
        limit = [] if self.threshold is None else [self.threshold]
        return tag(
            "svg",
            (_level(axes, tick, "grid") for tick in self._levels(axes)),
            (_shade(axes, *stretch) for stretch in self.shaded),
            (_level(axes, value, "limit") for value in limit),
            (self._band(axes, band) for band in self.bands),
            (self._curve(axes, line) for line in self.lines),
            viewBox=f"0 0 {SIZE} {SIZE}",
            preserveAspectRatio="none",
            aria_hidden="true",
        )

    def _band(self, axes: Axes, band: Band) -> Html:
        edges = [*axes.points(self.x, band.low), *axes.points(self.x, band.high)[::-1]]
        return tag("polygon", points=" ".join(edges), class_=colour_class(band.colour))

    def _curve(self, axes: Axes, line: Line) -> Html:
        points = axes.points(self.x, line.values)
        # A single point is drawn as a line to itself; its round ends show.
        points = points * 2 if len(points) == 1 else points
        kind = f"{colour_class(line.colour)}{' thin' if line.thin else ''}"
        return tag("polyline", points=" ".join(points), class_=kind)

    def _data(self, axes: Axes) -> dict[str, Any]:
        """Return the data for page.js."""
        lines = [
            {"name": line.name, "colour": colour_class(line.colour), "thin": line.thin}
            | {"y": _plain(line.values)}
            for line in self.lines
        ]
        return {"x": self.x.tolist(), "label": self.x_label, "lines": lines, **asdict(axes)}


def key(colour: int) -> Html:
    """Return the mark of a line in legends."""
    return tag("i", class_=f"key {colour_class(colour)}")


def colour_class(number: int) -> str:
    """Return the style-sheet class of a colour; after the last, colours repeat with dashes."""
    return f"c{number % COLOURS}{' more' if number >= COLOURS else ''}"


def _level(axes: Axes, value: float, kind: str) -> Html:
    height = f"{SIZE * axes.down(value):.4g}"
    return tag("line", x1=0, x2=SIZE, y1=height, y2=height, class_=kind)


def _shade(axes: Axes, first: float, last: float) -> Html:
    left, right = SIZE * axes.across(first), SIZE * axes.across(last)
    return tag("rect", x=f"{left:.4g}", width=f"{right - left:.4g}", y=0, height=SIZE)


def _y_label(axes: Axes, tick: float) -> Html:
    return tag("span", number(tick), class_="y", style=f"top:{axes.down(tick):.2%}")


def _x_label(axes: Axes, tick: float) -> Html:
    share = axes.across(tick)
    # A label at the right end must stay inside.
    kind = "x end" if share > 0.9 else "x"
    return tag("span", number(tick), class_=kind, style=f"left:{share:.2%}")


def _extremes(curves: Iterable[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([*curves, np.empty(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)


def _ticks(low: float, high: float, *, most: int, log: bool = False) -> list[float]:
    """Return round numbers between the two."""
    if log:
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        return [2.0**p for p in powers][:: -(-len(powers) // most)]
    least = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= least)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _plain(values: np.ndarray) -> list[float | int | None]:
    """Return numbers in a short form for JSON."""
    rounded = (float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in values.tolist())
    return [int(v) if v is not None and v == int(v) else v for v in rounded]
