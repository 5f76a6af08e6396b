"""The reward of each offline episode, for algorithms that learn from rewards found beforehand."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.errors import LobsDICEError
from lobsdice.report.charts import Chart, Line
from lobsdice.report.curves import thinned
from lobsdice.report.html import Column, Html, join, number, table, tag
from lobsdice.report.weights import MOST_ROWS, Weights, before, episode_names
from lobsdice.rewards.scores import layout
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.scores import SCORES, case_of, read_scores


@dataclass(frozen=True, eq=False)
class Rewards(Weights):
    """The mean reward of a step of each offline episode, as `share`."""

    what: str = "reward"
    """The name of the numbers: reward or weight."""
    kind: str = ""
    """The value of the option `reward`."""


def rate(folder: RunFolder, fleet: Fleet, offline: Episodes, file: str | None) -> Rewards:
    """Return the rewards that the run folder keeps, averaged over the runs."""
    path = folder.path / SCORES
    found = read_scores(path) if path.exists() else None
    if found is None:
        raise LobsDICEError(f"{path} is missing or damaged")
    cases = list(dict.fromkeys(map(case_of, fleet.members)))
    scores = dict(zip(cases, found[1], strict=True))
    means = []
    for member in fleet.members:
        data = fleet.datas[member.data]
        algorithm: Any = member.algorithm  # one that is `Scored`
        assert data.episode is not None
        values = algorithm.shown(scores[case_of(member)], layout(data))
        sums = np.bincount(data.episode, np.asarray(values, np.float64), minlength=len(offline))
        means.append(sums / offline.lengths)
    first: Any = fleet.members[0].algorithm
    mean = np.mean(means, axis=0)
    return Rewards(offline, mean, file, len(means), first.shown_as, first.reward)


def section(rewards: Rewards) -> Html:
    """Return the part of the page about rewards: a sentence, a chart and a sortable table."""
    return join(
        tag("p", _sentence(rewards)),
        tag("div", _chart(rewards), class_="charts wide"),
        tag("h3", "By episode"),
        _table(rewards),
    )


def _sentence(rewards: Rewards) -> str:
    best, worst = rewards.order[0], rewards.order[-1]
    names, place = rewards.sources, episode_names(rewards)
    mean = f" (mean over {rewards.runs} seeds)" if rewards.runs > 1 else ""
    return (
        f"Before training, each logged step got a {rewards.what}{mean}, of the kind "
        f"“{rewards.kind}”. Its mean over an episode is largest in {names[best]} {place[best]} "
        f"({number(float(rewards.share[best]))}) and least in {names[worst]} {place[worst]} "
        f"({number(float(rewards.share[worst]))})."
    )


def _chart(rewards: Rewards) -> Html:
    ordered = rewards.share[rewards.order]
    some = np.array(thinned(range(len(ordered))))
    return Chart(
        f"Mean {rewards.what} of a step",
        some,
        [Line(rewards.what, ordered[some])],
        x_label="episodes, the best first",
        note=f"The mean {rewards.what} of the steps of each logged episode, in descending order.",
        value=f"{number(float(ordered[0]))} to {number(float(ordered[-1]))}",
    ).html()


def _table(rewards: Rewards) -> Html:
    columns = [
        *([Column("source")] if len(set(rewards.sources)) > 1 or rewards.file is None else []),
        Column("episode"),
        Column("mean", f"mean {rewards.what}", bar=True),
        Column("sum", f"sum of {rewards.what}s"),
        Column("steps"),
        Column("first", "first step"),
        *([Column("return")] if rewards.offline.rewards is not None else []),
    ]
    options = {"sortable": True, "sorted_by": "mean", "most": MOST_ROWS}
    return table(columns, _rows(rewards), label="Rewards by episode", **options)


def _rows(rewards: Rewards) -> list[dict[str, Any]]:
    lengths, returns = rewards.offline.lengths, rewards.offline.returns()
    place, first = episode_names(rewards), before(rewards, lengths)
    return [
        {
            "source": rewards.sources[i],
            "episode": place[i],
            "mean": float(rewards.share[i]),
            "sum": float(rewards.share[i] * lengths[i]),
            "steps": int(lengths[i]),
            "first": int(first[i]),
            "return": None if returns is None else float(returns[i]),
        }
        for i in rewards.order.tolist()
    ]
