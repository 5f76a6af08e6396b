"""Callbacks: functions of the user's own that see each evaluation, add metrics, and may stop.

docs/callbacks.md shows how they are written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy
from lobsdice.training.loggers import Row, measured


class StopTraining(Exception):
    """Raised by a callback to end training; its text goes to `Run.stopped`."""


class Moment(NamedTuple):
    """An evaluation as a callback sees it. Runs that have failed are left out."""

    step: int
    """Gradient steps so far."""
    rows: Sequence[Row]
    """The row of each run: `step`, `run`, `seed`, the losses, measures and scores."""
    policies: Mapping[int, Policy]
    """The policy of each run, by its number and in the order of the rows."""
    history: Sequence[Row]
    """The rows of all evaluations before, those of a training that was resumed included."""


#: What a callback may return: metrics, each one number for all runs or one number a run.
Metrics = Mapping[str, float | Sequence[float]]
Callback = Callable[[Moment], Metrics | None]


def called(callbacks: Iterable[Callback], now: Moment) -> tuple[list[Row], str | None]:
    """The rows with the metrics of all callbacks, and why training is to stop, if it is."""
    stopped = None
    for callback in callbacks:
        try:
            found = callback(now)
        except StopTraining as stop:
            stopped = stopped or str(stop) or "a callback stopped it"
        else:
            now = now._replace(rows=_with_metrics(now.rows, found or {}, callback))
    return list(now.rows), stopped


def _with_metrics(rows: Sequence[Row], metrics: Any, callback: Callback) -> list[Row]:
    """The rows with more columns, or an error that names the callback and the metric."""
    who = getattr(callback, "__name__", type(callback).__name__)
    if not isinstance(metrics, Mapping):
        raise LobsDICEError(
            f"the callback {who} returned {type(metrics).__name__}; it must return metrics by "
            "their names, or nothing"
        )
    columns = {name: _column(name, value, len(rows), who) for name, value in metrics.items()}
    if taken := [name for name in columns if name in rows[0]]:
        raise LobsDICEError(
            f"the callback {who} returned the metric {taken[0]!r}, but there is one of that name; "
            "choose another"
        )
    return [
        row | {name: column[i] for name, column in columns.items()} for i, row in enumerate(rows)
    ]


def _column(name: str, value: Any, runs: int, who: str) -> list[float]:
    try:
        return np.broadcast_to(np.asarray(value, np.float64), (runs,)).tolist()
    except (TypeError, ValueError) as error:
        raise LobsDICEError(
            f"the callback {who} returned the metric {name!r}, which is neither a number nor "
            f"{runs} of them, one for each run"
        ) from error


@dataclass(frozen=True)
class EarlyStopping:
    """A callback that stops training once no run gets better by a metric.

    It looks at the history alone. So it decides the same in a training that was resumed.
    """

    metric: str
    """The metric to watch, such as `return` or a `held_out_..._loss`."""
    patience: int = 5
    """Evaluations without a better value after which a run counts as finished."""
    mode: Literal["max", "min"] | str = "max"
    """The better direction: larger or smaller values."""
    least: float | int = 0.0
    """By how much a value must be better."""

    def __post_init__(self):
        if self.mode not in ("max", "min"):
            raise LobsDICEError(f"`mode` is {self.mode!r}; it must be 'max' or 'min'")
        if self.patience < 1:
            raise LobsDICEError(f"`patience` is {self.patience}; it must be at least 1")

    def __call__(self, now: Moment) -> None:
        values: dict[int, list[Any]] = {row["run"]: [] for row in now.rows}
        for row in (*now.history, *now.rows):
            if row["run"] in values and self.metric in row:
                values[row["run"]].append(row[self.metric])
        if not all(values.values()):
            known = ", ".join(measured(now.rows[0]))
            raise LobsDICEError(
                f"there is no metric {self.metric!r} to stop by; there are: {known}"
            )
        if all(map(self._finished, values.values())):
            raise StopTraining(
                f"no run got better by {self.metric} in the last {self.patience} evaluations"
            )

    def _finished(self, values: Sequence[Any]) -> bool:
        """True if the best of the last values is not better than the best before them."""
        sign = 1 if self.mode == "max" else -1
        signed = np.nan_to_num(sign * np.asarray(values), nan=-np.inf)
        before, last = signed[: -self.patience], signed[-self.patience :]
        return bool(before.size and last.max() <= before.max() + self.least)
