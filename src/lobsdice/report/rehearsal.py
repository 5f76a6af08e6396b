"""The rehearsal of a run's policies: episodes in the learned world beside the demonstrations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.report.charts import SIZE, Chart, Line, colour_class
from lobsdice.report.html import Column, Html, facts, join, table, tag
from lobsdice.training.rehearsal.files import changed, kept_report, kept_rollouts
from lobsdice.training.rehearsal.verdict import MOST_UNKNOWN, NEAR_ENOUGH, OFTEN_ENOUGH, none_works

#: Features that are drawn at most, and episodes of each kind in a drawing.
MOST_FEATURES, MOST_EPISODES = 12, 6
#: Cells of the map along each side.
CELLS = 24
#: Colours of the demonstrations, of rehearsed steps near them, and of the others.
SHOWN, NEAR, AWAY = 7, 0, 1


@dataclass(frozen=True, eq=False)
class Rehearsals:
    """The rehearsal that a run folder keeps."""

    report: Mapping[str, Any]
    rollouts: Mapping[str, np.ndarray]
    """The kept episodes of the best policy."""
    expert: Episodes
    names: Sequence[str] = ()
    """The names of the features."""

    @property
    def first(self) -> np.ndarray:
        """The states of the first kept episode, which starts where a demonstration does."""
        return self.rollouts["states"][0, : self.rollouts["steps"][0] + 1]


def kept(folder: Path, expert: Episodes, names: Sequence[str] = ()) -> Rehearsals | str:
    """Read the rehearsal of a run folder, or say why there is none.

    `names` are those of the features.
    """
    report = kept_report(folder)
    if report is None or not report["policies"]:
        return f"the policies were not rehearsed; `lobsdice rehearse {folder}` does it"
    if any(changed(folder, one) for one in report["policies"]):
        return (
            "the policies have changed since they were rehearsed; "
            f"`lobsdice rehearse {folder}` does it again"
        )
    best = _ranked(report)[0]
    return Rehearsals(report, kept_rollouts(folder, best["policy"]), expert, names)


def _ranked(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the policies in the order of `lobsdice select`: recommended ones first."""
    rank = [(one["works"], one["score"], one) for one in report["policies"]]
    return [one for *_, one in sorted(rank, key=lambda x: x[:2], reverse=True)]


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def section(found: Rehearsals) -> Html:
    """Return the part of the page about the rehearsal."""
    policies = _ranked(found.report)
    best = policies[0]
    keys = ("policy", "chance", "score", "finished", "failed", "guessing", "near")
    columns = [Column(key, percent=key in ("chance", "near")) for key in keys]
    return join(
        tag("p", f"{_capital(none_works(best['ending']))}.") if not best["works"] else None,
        tag("p", f"{best['policy']}: {best['sentence']}."),
        table(columns, policies, label="Rehearsed policies"),
        tag("p", COLUMNS.format(starts=best["starts"]), class_="quiet"),
        tag("p", RULE, class_="quiet"),
        tag("h3", "Where it goes"),
        tag("p", PROJECTION, class_="quiet"),
        tag("div", projection(found), wrong_map(found), class_="charts wide"),
        tag("h3", "Features"),
        tag("div", feature_charts(found), class_="charts"),
        tag("h3", "The learned world, on held-out rows"),
        facts(found.report["world"].get("quality", {}), label="Learned world"),
        tag("p", QUALITY, class_="quiet"),
    )


COLUMNS = (
    "Of {starts} rehearsed episodes: finished, those that end as demonstrations do; failed, those "
    "that end as no demonstration does; guessing, those in which the model did not know what "
    "follows. Near is how near they stay to the demonstrations. The score says whether the policy "
    "acts as the logs did in demonstrated movements, follows the demonstrations for a few steps, "
    "ends as they do, and goes to the same places."
)
QUALITY = (
    "Unexplained is the share of the movements' variance that the world does not predict. In "
    "interval is the share of movements in its 90 % intervals. Miscalibration is how far the "
    "predicted quantiles are from the true ones, on average: 0 to 0.25. Expected ends is the mean "
    "probability of an end where held-out episodes end, and end error the squared error of that "
    "probability as a share of its variance. With fewer than 16 ends none is held out."
)
RULE = (
    f"A policy is recommended if it ends as demonstrations do {OFTEN_ENOUGH:g} times as often as "
    f"they do, if near is at least {NEAR_ENOUGH:g} after a division by how otherwise its states "
    "are spread, and if it clearly follows them from their own states or acts as they did. "
    "Episodes with a guess do not count for the ends, if they are at most "
    f"{MOST_UNKNOWN:.0%}."
)
PROJECTION = (
    "Both pictures show states in the two directions in which the demonstrations differ most. On "
    "the left, grey lines are demonstrations. Coloured lines are rehearsed episodes of the best "
    "policy, with another colour where they are away from the demonstrations. A cross is an end "
    "that no demonstration has. A ring is where the model starts to guess. The map on the right is "
    "darker where more of the rehearsed steps are away."
)


def _demonstrations(found: Rehearsals) -> list[np.ndarray]:
    expert = found.expert
    some = range(min(len(expert), MOST_EPISODES))
    return [expert.observations[expert.starts[i] : expert.ends[i] + 1] for i in some]


def _rehearsed(found: Rehearsals) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the states of each kept episode, and which of its steps are near."""
    arrays = found.rollouts
    return [
        (arrays["states"][i, : n + 1], arrays["near"][i, :n])
        for i, n in enumerate(arrays["steps"].tolist())
    ]


def feature_charts(found: Rehearsals) -> list[Html]:
    """Return a chart of each feature over time."""
    names = found.names or [f"feature {i}" for i in range(found.expert.state_size)]
    shown, rehearsed = _demonstrations(found), [states for states, _ in _rehearsed(found)]
    length = max(len(states) for states in (*shown, *rehearsed))
    every = max(1, length // 200)
    x = np.arange(0, length, every)
    charts = []
    for i in range(min(found.expert.state_size, MOST_FEATURES)):
        lines = [Line("demonstrated", _padded(s[:, i], length)[x], SHOWN, thin=True) for s in shown]
        lines += [
            Line("rehearsed", _padded(s[:, i], length)[x], NEAR, thin=True)
            for s in rehearsed[:MOST_EPISODES]
        ]
        charts.append(Chart(str(names[i]), x, lines, value="").html())
    return charts


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([values, np.full(length - len(values), np.nan)]).astype(float)


class _Plane:
    """The plane of the two directions in which the demonstrations differ most."""

    def __init__(self, found: Rehearsals):
        shown = np.concatenate(_demonstrations(found)).astype(float)
        everything = np.concatenate([shown, *(states for states, _ in _rehearsed(found))])
        self.mean, self.scale = shown.mean(axis=0), shown.std(axis=0) + 1e-9
        axes = np.linalg.svd((shown - self.mean) / self.scale, full_matrices=False)[2][:2]
        self.axes = axes if len(axes) == 2 else np.concatenate([axes, np.zeros_like(axes)])
        at = self._flat(everything)
        self.low, self.high = np.quantile(at, [0.005, 0.995], axis=0)

    def _flat(self, states: np.ndarray) -> np.ndarray:
        return ((states - self.mean) / self.scale) @ self.axes.T

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return places in the drawing, each between 0 and 1."""
        spread = np.maximum(self.high - self.low, 1e-9)
        return np.clip((self._flat(states) - self.low) / spread, -0.02, 1.02) * 0.96 + 0.02


def projection(found: Rehearsals) -> Html:
    """Return a drawing of demonstrated and rehearsed episodes in a plane."""
    plane = _Plane(found)
    shapes = [_polyline(plane(states), SHOWN) for states in _demonstrations(found)]
    for i, (states, near) in enumerate(_rehearsed(found)):
        places = plane(states)
        for stretch, close in _stretches(near):
            shapes.append(_polyline(places[stretch], NEAR if close else AWAY))
        if found.rollouts["failed"][i]:
            shapes.append(_mark(places[-1], "×"))
        elif found.rollouts["guessing"][i]:
            shapes.append(_mark(places[-1], "○"))
    return _drawing("Rehearsed episodes beside the demonstrations", shapes)


def _stretches(near: np.ndarray) -> list[tuple[slice, bool]]:
    """Return the stretches of steps that are all near, or all away."""
    cuts = np.flatnonzero(np.diff(near.astype(int))) + 1
    edges = [0, *cuts.tolist(), len(near)]
    return [
        (slice(first, last + 1), bool(near[first]))
        for first, last in pairwise(edges)
        if last > first
    ]


def wrong_map(found: Rehearsals) -> Html:
    """Return a map of the plane: cells are darker where more steps are away."""
    plane = _Plane(found)
    places = np.concatenate([plane(states[:-1]) for states, _ in _rehearsed(found)])
    away = np.concatenate([~near for _, near in _rehearsed(found)])
    cell = np.clip((places * CELLS).astype(int), 0, CELLS - 1)
    number = cell[:, 0] * CELLS + cell[:, 1]
    visits = np.bincount(number, minlength=CELLS**2)
    wrong = np.bincount(number, away, minlength=CELLS**2)
    side, shapes = SIZE / CELLS, []
    for i in np.flatnonzero(visits).tolist():
        x, y = divmod(i, CELLS)
        share = wrong[i] / visits[i]
        shapes.append(
            tag(
                "rect",
                x=f"{x * side:.4g}",
                y=f"{SIZE - (y + 1) * side:.4g}",
                width=f"{side:.4g}",
                height=f"{side:.4g}",
                class_=colour_class(AWAY),
                style=f"fill:currentColor;opacity:{0.08 + 0.9 * share:.2f}",
            )
        )
    return _drawing("Where it goes wrong", shapes)


def _polyline(places: np.ndarray, colour: int) -> Html:
    points = " ".join(f"{SIZE * x:.4g},{SIZE * (1 - y):.4g}" for x, y in places)
    return tag("polyline", points=points, class_=f"{colour_class(colour)} thin")


def _mark(place: np.ndarray, sign: str) -> Html:
    x, y = SIZE * place[0], SIZE * (1 - place[1])
    style = "font-size:36px;text-anchor:middle;dominant-baseline:central;fill:currentColor"
    return tag("text", sign, x=f"{x:.4g}", y=f"{y:.4g}", style=style)


def _drawing(title: str, shapes: Sequence[Html]) -> Html:
    drawing = tag("svg", shapes, viewBox=f"0 0 {SIZE} {SIZE}", preserveAspectRatio="none")
    plot = tag("div", drawing, class_="plot", role="img", aria_label=title)
    return tag("figure", tag("figcaption", tag("b", title)), plot, class_="chart")
