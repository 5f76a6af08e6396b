"""Curves as inline SVG, with their numbers beside them for the script that shows values.

The drawing is stretched to whatever width there is; only its lines keep their strength. Text stands
beside it, so that it is as large on a phone as on a screen.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lobsdice.pages.html import Html, number, tag

#: Of the drawing's own units.
SIZE = 1000
#: Colours that the style sheet has.
COLOURS = 8
#: A beginning that makes the range this many times larger than the rest needs is cut off.
CUT = 8.0
#: The share of the horizontal axis that counts as the beginning.
BEGINNING = 0.2
#: Multiples of the height within which curves are drawn.
OUTSIDE = 9.0
#: Digits of a value that is shown.
DIGITS = 5


@dataclass(frozen=True, eq=False)
class Line:
    """One value for each place on the horizontal axis; NaN where there is none."""

    name: str
    values: np.ndarray
    colour: int = 0
    thin: bool = False


@dataclass(frozen=True, eq=False)
class Band:
    """The range between two curves."""

    low: np.ndarray
    high: np.ndarray
    colour: int = 0


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over one axis."""

    title: str
    x: np.ndarray
    lines: Sequence[Line]
    x_label: str = "step"
    note: str = ""
    bands: Sequence[Band] = ()
    limits: tuple[float, float] | None = None
    """Of the vertical axis; by default what the curves need."""
    log: bool = False
    threshold: float | None = None
    """Where to draw a dashed line."""
    shaded: Sequence[tuple[float, float]] = ()
    """Stretches of the horizontal axis to mark."""
    value: str | None = None
    """What stands beside the title; by default where the first thick line ends."""
    flat: bool = False
    """Half as high as others."""

    def html(self) -> Html:
        """A figure, which can be read without the script and by those who cannot see it."""
        (low, high), cut = self._range()
        ticks = _ticks(low, high, log=self.log, most=3 if self.flat else 5)
        ends = _span(self.x)
        heights = {t: self._height(np.array([t]), low, high)[0] for t in ticks}
        note = " ".join(filter(None, [self.note, "It begins outside the chart." if cut else ""]))
        caption = tag(
            "figcaption",
            tag("b", self.title),
            tag("span", self.value or self._last(), class_="value"),
            tag("small", note) if note else None,
        )
        plot = tag(
            "div",
            self._drawing(low, high, heights.values()),
            (tag("span", number(t), class_="y", style=_at("top", h)) for t, h in heights.items()),
            (
                tag("span", number(t), class_=_x_class(share), style=_at("left", share))
                for t in _ticks(*ends, most=3)
                for share in [_share(t, *ends)]
            ),
            class_="plot",
            role="img",
            aria_label=self._summary(),
        )
        label = tag("div", self.x_label, class_="axis")
        kind = "chart flat" if self.flat else "chart"
        return tag("figure", caption, plot, label, class_=kind, data_chart=self._data(low, high))

    def _last(self) -> str:
        values = [line.values[np.isfinite(line.values)] for line in self.lines if not line.thin]
        return number(float(values[0][-1])) if len(values) == 1 and len(values[0]) else ""

    def _summary(self) -> str:
        parts = []
        for line in (line for line in self.lines if not line.thin):
            there = np.isfinite(line.values)
            if there.any():
                x, y = self.x[there][[0, -1]], line.values[there][[0, -1]]
                ends = (
                    f"{number(float(b))} at {number(float(a))}" for a, b in zip(x, y, strict=True)
                )
                parts.append(f"{line.name} from {' to '.join(ends)}")
        return f"{self.title} by {self.x_label}: {'; '.join(parts) or 'no values'}"

    def _range(self) -> tuple[tuple[float, float], bool]:
        """The vertical axis, and whether a wild beginning was left out of it."""
        if self.limits is not None:
            return self.limits, False
        curves = [line.values for line in self.lines]
        curves += [edge for band in self.bands for edge in (band.low, band.high)]
        whole = _extremes(curves)
        first, last = _span(self.x)
        late = self.x > first + BEGINNING * (last - first)
        later = _extremes([curve[late] for curve in curves])
        cut = later[1] > later[0] and whole[1] - whole[0] > CUT * (later[1] - later[0])
        low, high = later if cut else whole
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return (low - margin, high + margin), cut

    def _height(self, values: np.ndarray, low: float, high: float) -> np.ndarray:
        """Shares of the height, from the top."""
        if self.log:
            values, low, high = np.log(np.clip(values, low, high)), math.log(low), math.log(high)
        return (high - values) / (high - low)

    def _drawing(self, low: float, high: float, grid: Iterable[float]) -> Html:
        across = SIZE * _share(self.x, *_span(self.x))

        def points(values: np.ndarray) -> list[str]:
            # Browsers do not like very large coordinates; what is outside is not seen anyway.
            heights = SIZE * np.clip(self._height(values, low, high), -OUTSIDE, OUTSIDE)
            pairs = zip(across, heights, strict=True)
            return [f"{a:.4g},{b:.4g}" for a, b in pairs if np.isfinite(b)]

        bands = (
            tag(
                "polygon",
                points=" ".join([*points(b.low), *points(b.high)[::-1]]),
                class_=colour_class(b.colour),
            )
            for b in self.bands
        )
        curves = (
            tag(
                "polyline",
                points=" ".join(_visible(points(line.values))),
                class_=f"{colour_class(line.colour)}{' thin' if line.thin else ''}",
            )
            for line in self.lines
        )
        return tag(
            "svg",
            (_level(SIZE * height, "grid") for height in grid),
            (self._shade(first, last) for first, last in self.shaded),
            None
            if self.threshold is None
            else _level(SIZE * self._height(np.array([self.threshold]), low, high)[0], "limit"),
            bands,
            curves,
            viewBox=f"0 0 {SIZE} {SIZE}",
            preserveAspectRatio="none",
            aria_hidden="true",
        )

    def _shade(self, first: float, last: float) -> Html:
        left, right = (SIZE * _share(x, *_span(self.x)) for x in (first, last))
        return tag("rect", x=f"{left:.4g}", width=f"{right - left:.4g}", y=0, height=SIZE)

    def _data(self, low: float, high: float) -> str:
        """What the script needs to know."""
        lines = [
            {
                "name": line.name,
                "colour": colour_class(line.colour),
                "thin": line.thin,
                "y": _plain(line.values),
            }
            for line in self.lines
        ]
        first, last = _span(self.x)
        ends = {"low": low, "high": high, "first": first, "last": last}
        whole = {
            "x": _plain(self.x),
            "label": self.x_label,
            "log": self.log,
            **ends,
            "lines": lines,
        }
        return json.dumps(whole, allow_nan=False, separators=(",", ":"))


def colour_class(number: int) -> str:
    """Of the style sheet; after the last colour they begin anew, with dashes."""
    return f"c{number % COLOURS}{' more' if number >= COLOURS else ''}"


def _level(height: float, kind: str) -> Html:
    return tag("line", x1=0, x2=SIZE, y1=f"{height:.4g}", y2=f"{height:.4g}", class_=kind)


def _visible(points: list[str]) -> list[str]:
    """A single point is a line to itself, which has round ends."""
    return points * 2 if len(points) == 1 else points


def _x_class(share: float) -> str:
    """A label at the right end must not stick out."""
    return "x end" if share > 0.9 else "x"


def _at(side: str, share: float) -> str:
    return f"{side}:{share:.2%}"


def _span(x: np.ndarray) -> tuple[float, float]:
    """The ends of the horizontal axis, which begins at 0 unless values are negative."""
    return min(0.0, float(x.min())), float(x.max()) or 1.0


def _share(value, first: float, last: float):
    return (value - first) / (last - first)


def _extremes(curves: Iterable[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([*curves, np.empty(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)


def _ticks(low: float, high: float, *, most: int, log: bool = False) -> list[float]:
    """Round numbers between the two."""
    if log:
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        return [2.0**p for p in powers][:: -(-len(powers) // most)]
    least = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= least)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _plain(values: np.ndarray) -> list[float | int | None]:
    """Numbers as short as JSON can hold them."""
    rounded = (float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in values.tolist())
    return [int(v) if v is not None and v == int(v) else v for v in rounded]
