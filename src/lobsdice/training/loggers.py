"""Loggers, which show rows of metrics: in the terminal, TensorBoard, and Weights & Biases.

A logger is any function of the rows of a step: one row for each run of the fleet.
"""

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice import console
from lobsdice.errors import LobsDICEError, require

Row = dict[str, Any]
Logger = Callable[[Sequence[Row]], None]

#: Columns that identify a row. All others are measurements.
NAMES = ("step", "run", "seed")
#: Columns that a narrow terminal shows first.
FIRST = ("step", "runs", "score", "return")
#: Width of a line where there is no terminal.
LINE = 120

#: Seconds that are left at most, however slow training seems: after that the clock has jumped.
LONGEST = 1e9


@dataclass
class LiveTable:
    """Prints a line for each logged step: the mean of every column over the runs.

    Where there is no terminal, it only remembers the line, for the progress to show now and then.
    """

    widths: dict[str, int] = field(default_factory=dict)
    """The widths of the columns, chosen when the first line is printed."""
    latest: str = ""
    """The last line, where there is no terminal."""

    def __call__(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        means = summary(rows)
        if not console.err.is_terminal:
            shown = fitting(means, LINE)
            step, *others = (f"{name} {_text(means[name])}" for name in means if name in shown)
            self.latest = f"{step}: {', '.join(others)}"
            return
        if not self.widths:
            self.widths = fitting(means, console.err.width)
            console.say("  ".join(f"{name:>{n}}" for name, n in self.widths.items()))
        console.say("  ".join(f"{_text(means.get(k)):>{n}}" for k, n in self.widths.items()))


def summary(rows: Sequence[Row]) -> Row:
    """The mean of each column over the rows of a step, and the number of runs if several."""
    runs = {"runs": len(rows)} if len(rows) > 1 else {}
    means = {name: float(np.mean([row[name] for row in rows])) for name in measured(rows[0])}
    return {"step": rows[0]["step"]} | runs | means


def fitting(row: Row, width: int) -> dict[str, int]:
    """The columns that fit into `width`, the most important first, with their widths."""
    names = [*(name for name in FIRST if name in row), *(n for n in row if n not in FIRST)]
    widths = [max(len(name), 9) for name in names]
    ends = np.cumsum([n + 2 for n in widths]) - 2
    return {name: n for name, n, end in zip(names, widths, ends, strict=True) if end <= width}


def measured(row: Row) -> dict[str, float | int]:
    """The measurements of a row."""
    return {name: value for name, value in row.items() if name not in NAMES}


def _text(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"


@dataclass
class Pace:
    """Reports steps and their rate to a progress bar.

    The first piece of each length is not timed, because its program is compiled before.
    """

    advance: console.Advance
    left: int
    table: "LiveTable | None" = None
    """The table whose last line is shown, where there is no terminal."""
    counted: int = 0
    seconds: float = 0.0
    """The time of the steps that were counted."""
    lengths: set[int] = field(default_factory=set)
    """The lengths of the pieces so far."""
    last: float = field(default_factory=time.monotonic)

    def begin(self, done: int) -> None:
        """Start, with `done` steps already taken by earlier processes."""
        self.advance(done, note="compiling ..." if self.left else "")
        if self.left and not console.err.is_terminal:
            console.say("compiling ...")

    def __call__(self, steps: int) -> None:
        now = time.monotonic()
        took, self.last = now - self.last, now
        self.left -= steps
        if steps in self.lengths:
            self.counted, self.seconds = self.counted + steps, self.seconds + took
        self.lengths.add(steps)
        if not self.counted:
            return self.advance(steps, note="")
        rate = self.counted / max(self.seconds, 1e-9)
        note = f"{rate:,.0f} steps/s"
        if not console.err.is_terminal:  # the bar of a terminal shows the time left itself
            left = timedelta(seconds=round(min(self.left / rate, LONGEST)))
            latest = f"; {self.table.latest}" if self.table and self.table.latest else ""
            note = f"({note}, {left} left){latest}"
        self.advance(steps, note=note)


class TensorBoard:
    """Writes event files for TensorBoard, in a subfolder of `folder` for each run."""

    def __init__(self, folder: str | Path):
        names = ("proto.event_pb2", "event_file_writer", "summary")
        parts = (_require(f"tensorboardX.{name}", extra="tensorboard") for name in names)
        self.events, self.files, self.summaries = parts
        self.folder = Path(folder)
        self.writers: dict[int, Any] = {}
        weakref.finalize(self, _close, self.writers)

    def __call__(self, rows: Sequence[Row]) -> None:
        try:
            for row in rows:
                self._log(row)
        except OSError as error:
            raise LobsDICEError(f"cannot write {self.folder}: {error.strerror or error}") from error

    def _log(self, row: Row) -> None:
        # Not with SummaryWriter: its thread may lose the last rows when the program ends.
        if row["run"] not in self.writers:
            self.writers[row["run"]] = self._open(row)
        writer = self.writers[row["run"]]
        for name, value in measured(row).items():
            writer.write_event(self._event(row, summary=self.summaries.scalar(name, value)))
        writer.flush()

    def _open(self, row: Row) -> Any:
        path = self.folder / f"run-{row['run']}"
        path.mkdir(parents=True, exist_ok=True)
        writer = self.files.EventsWriter(str(path / "events"), f".{os.getpid()}.{row['step']}")
        # This event hides later steps that an interrupted process left in older files.
        start = self.events.SessionLog(status=self.events.SessionLog.START)
        writer.write_event(self._event(row, session_log=start))
        return writer

    def _event(self, row: Row, **content: Any) -> Any:
        return self.events.Event(wall_time=time.time(), step=row["step"], **content)


def _close(writers: dict[int, Any]) -> None:
    for writer in writers.values():
        writer.close()


class WandB:
    """Logs to Weights & Biases: one of its runs for each run, in a group `name` of `project`.

    The environment variable WANDB_MODE makes it online, offline or disabled. With the same
    `identity` an interrupted run continues.
    """

    def __init__(
        self,
        project: str,
        *,
        name: str,
        identity: str | None = None,
        folder: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
    ):
        self.package = _require("wandb", extra="wandb")
        self.options = {"project": project, "group": name, "dir": folder and str(folder)}
        self.name, self.identity, self.config = name, identity, dict(config or {})
        self.runs: dict[int, Any] = {}

    def __call__(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row["run"] not in self.runs:
                self.runs[row["run"]] = self._start(row)
            self.runs[row["run"]].log(measured(row), step=row["step"])

    def _start(self, row: Row) -> Any:
        number = row["run"]
        try:
            return self.package.init(
                **self.options,
                name=f"{self.name}-{number}",
                id=self.identity and f"{self.identity}-{number}",
                resume="allow" if self.identity else None,
                config=self.config | {"run": number, "seed": row["seed"]},
                reinit="create_new",
            )
        except (self.package.Error, OSError) as error:
            raise LobsDICEError(f"Weights & Biases: {error}") from error


_require = partial(require, needed_by="this log")
