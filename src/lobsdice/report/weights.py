"""The weight of each offline episode: which recordings the policy imitates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from lobsdice.data.episodes import Episodes
from lobsdice.errors import LobsDICEError
from lobsdice.report.charts import Chart, Line
from lobsdice.report.curves import thinned
from lobsdice.report.html import Column, Html, join, number, table, tag
from lobsdice.training.closing import episode_shares
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder

#: Rows of the table at most.
MOST_ROWS = 1000
#: Number of episodes that the sentence names.
NAMED = 3


@dataclass(frozen=True, eq=False)
class Weights:
    """The share of each offline episode in the learned distribution d."""

    offline: Episodes
    share: Float64[np.ndarray, " episodes"]
    file: str | None
    """Name of the file of all episodes; None if each source is a file."""
    runs: int
    """Number of runs that the shares are averaged over."""

    @cached_property
    def order(self) -> Int64[np.ndarray, " episodes"]:
        """The numbers of the episodes, the heaviest first."""
        return np.argsort(-self.share, kind="stable")

    @property
    def half(self) -> int:
        """The least number of episodes that hold half of the weight; all if there is no weight."""
        enough = np.searchsorted(np.cumsum(self.share[self.order]), 0.5) + 1
        return min(int(enough), len(self.share))

    @cached_property
    def sources(self) -> list[str]:
        """The name of each episode's source."""
        if self.offline.source is None:
            return [self.file or "recording"] * len(self.offline)
        return [self.offline.source_names[i] for i in self.offline.source]

    @cached_property
    def groups(self) -> Int64[np.ndarray, " episodes"]:
        """The number of each episode's file; episodes are counted within it."""
        if self.file is not None or self.offline.source is None:
            return np.zeros(len(self.offline), np.int64)
        return self.offline.source


def weigh(folder: RunFolder, fleet: Fleet, offline: Episodes, file: str | None) -> Weights:
    """Return the weights of the last checkpoint, averaged over the runs that did not fail."""
    if any(data.blocks is not None for data in fleet.datas):
        raise LobsDICEError(
            "the logs stay on the disk, so that only some episodes could be weighed"
        )
    share, runs = episode_shares(folder, fleet, len(offline))
    return Weights(offline, share, file, runs)


def section(weights: Weights) -> Html:
    """Return the part of the page about weights: a sentence, a chart and sortable tables."""
    kinds = len(set(weights.sources)) > 1
    by_source = tag("div", tag("h3", "By source"), _by_source(weights)) if kinds else None
    return join(
        tag("p", _sentence(weights)),
        tag("div", _concentration(weights), by_source, class_="charts wide"),
        tag("h3", "By episode"),
        tag("p", COLUMNS, class_="quiet"),
        _table(weights, kinds),
    )


COLUMNS = (
    "“Per step” is the mean weight of the episode's steps; 1 is the mean over all steps. Episodes "
    "without names, and steps, are numbered from 0 in their file or source."
)


def _sentence(weights: Weights) -> str:
    if not weights.share.any():
        return "No recorded transition has any weight."
    called = episode_names(weights)
    names = [f"{weights.sources[i]} {called[i]}" for i in weights.order[:NAMED]]
    mean = f" (mean over {weights.runs} seeds)" if weights.runs > 1 else ""
    return (
        f"Half of the weight{mean} lies on {weights.half:,} of {len(weights.share):,} episodes. "
        f"The heaviest: {', '.join(names)}."
    )


def episode_names(weights: Weights) -> Sequence[str | int]:
    """Return the name of each episode, or else its number in its file."""
    return weights.offline.episode_names or numbers(weights).tolist()


def numbers(weights: Weights) -> Int64[np.ndarray, " episodes"]:
    """Return the number of each episode in its file, from 0."""
    return before(weights, np.ones_like(weights.groups))


def before(
    weights: Weights, amount: Int64[np.ndarray, " episodes"]
) -> Int64[np.ndarray, " episodes"]:
    """Return the sum of `amount` over the episodes before each one in its file."""
    found = np.empty_like(amount)
    for group in np.unique(weights.groups):
        mine = weights.groups == group
        found[mine] = np.cumsum(amount[mine]) - amount[mine]
    return found


def _concentration(weights: Weights) -> Html:
    total = np.concatenate([[0.0], np.cumsum(weights.share[weights.order])])
    lengths = weights.offline.lengths[weights.order]
    even = np.concatenate([[0.0], np.cumsum(lengths) / lengths.sum()])
    some = np.array(thinned(range(len(total))))
    lines = [Line("of the weight", 100 * total[some]), Line("of the steps", 100 * even[some], 7)]
    return Chart(
        "Concentration of the weight",
        some,
        lines,
        x_label="heaviest episodes",
        note="Per cent of the weight, and of all steps, in the heaviest episodes.",
        limits=(0.0, 100.0),
        legend=True,
        value=f"half on {number(weights.half)}",
    ).html()


def _by_source(weights: Weights) -> Html:
    sources, lengths = np.array(weights.sources), weights.offline.lengths
    rows = [
        {
            "source": str(name),
            "episodes": int((sources == name).sum()),
            "steps": float(lengths[sources == name].sum() / lengths.sum()),
            "weight": float(weights.share[sources == name].sum()),
        }
        for name in dict.fromkeys(weights.sources)
    ]
    columns = [
        Column("source"),
        Column("episodes"),
        Column("steps", percent=True),
        Column("weight", bar=True, percent=True),
    ]
    return table(columns, rows, label="Weight by source")


def _table(weights: Weights, kinds: bool) -> Html:
    columns = [
        *([Column("source")] if kinds or weights.file is None else []),
        Column("episode"),
        Column("share", "weight", bar=True, percent=True),
        Column("times", "per step"),
        Column("steps"),
        Column("first", "first step"),
        *([Column("return")] if weights.offline.rewards is not None else []),
    ]
    rows = _rows(weights)
    options = {"sortable": True, "sorted_by": "share", "most": MOST_ROWS}
    return table(columns, rows, label="Weight by episode", **options)


def _rows(weights: Weights) -> list[dict[str, Any]]:
    lengths, returns = weights.offline.lengths, weights.offline.returns()
    called, first = episode_names(weights), before(weights, lengths)
    even = lengths / lengths.sum()
    return [
        {
            "source": weights.sources[i],
            "episode": called[i],
            "share": float(weights.share[i]),
            "times": float(weights.share[i] / even[i]),
            "steps": int(lengths[i]),
            "first": int(first[i]),
            "return": None if returns is None else float(returns[i]),
        }
        for i in weights.order.tolist()
    ]
