"""All fleets in one view: what each does, how far it is, and how it ended."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lobsdice import console
from lobsdice.errors import plain, plural
from lobsdice.executors.job import LOG, Event, Executor, Job

#: Bytes at the end of metrics.csv that surely hold its last line.
TAIL = 2**16
#: Seconds between two looks at how far fleets are.
GLANCE = 1.0

Conclude = Callable[[Path, int], None]


def run_all(
    executor: Executor, jobs: Iterable[Job], count: int, conclude: Conclude
) -> dict[Path, int]:
    """Run `count` jobs to their end, show how far they are, and return their exit statuses.

    `conclude` is called with the folder and the status of each when it has ended.
    """
    found: dict[Path, int] = {}
    with board(count) as show, closing(executor.run(jobs)) as events:
        for event in events:
            show(event)
            if event and event.what == "ended":
                found[event.job.folder] = event.status
                conclude(event.job.folder, event.status)
    return found


@contextmanager
def board(count: int) -> Iterator[Callable[[Event | None], None]]:
    """Yield a function to show an event with, or with None the time that passes."""
    view = Rows(count) if console.err.is_terminal else Lines(count)
    with view as show:
        yield show


@dataclass
class Lines:
    """Prints what happens and, every few seconds, how far the fleets are."""

    count: int
    done: int = 0
    running: dict[Job, str] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Callable[[Event | None], None]:
        return self.show

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, event: Event | None) -> None:
        if event is not None:
            self._take(event)
        now = time.monotonic()
        if now - self.last >= console.SECONDS_BETWEEN_LINES:
            self.last = now
            steps = [f"{job.folder.name} {_far(job)}" for job in self.running]
            done = f"{self.done} of {plural(self.count, 'fleet')} done"
            console.say("; ".join([f"{done}, {now - self.start:.0f} s", *steps]))

    def _take(self, event: Event) -> None:
        if event.what == "ended":
            self.running.pop(event.job, None)
            self.done += 1
            return
        self.running[event.job] = event.where
        if event.what == "again" or event.where:
            console.say(told(event))


@dataclass
class Rows:
    """Shows a bar for each fleet that runs, and one for all."""

    count: int
    bars: dict[Job, Any] = field(default_factory=dict)
    last: float = 0.0

    def __enter__(self) -> Callable[[Event | None], None]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self.progress = Progress(*columns, console=console.err)
        self.progress.start()
        self.all = self.progress.add_task("Fleets", total=self.count, note="")
        return self.show

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def show(self, event: Event | None) -> None:
        if event is not None:
            self._take(event)
        if time.monotonic() - self.last >= GLANCE:
            self.last = time.monotonic()
            for job, bar in self.bars.items():
                self.progress.update(bar, completed=last_step(job.folder))

    def _take(self, event: Event) -> None:
        job, note = event.job, f"{event.where} {LOG}".strip()
        if event.what == "ended":
            if job in self.bars:
                self.progress.remove_task(self.bars.pop(job))
            return self.progress.advance(self.all)
        if event.what == "again":
            console.say(told(event))
        if job in self.bars:
            return self.progress.update(self.bars[job], note=note)
        name, total = plain(job.folder.name), job.steps or None
        self.bars[job] = self.progress.add_task(name, total=total, note=note)


def told(event: Event) -> str:
    """A sentence about a fleet that began, or goes on after its program or machine was lost."""
    where = f" on {event.where}" if event.where else ""
    if event.what == "begun":
        return f"{event.job.folder.name} trains{where}; log: {event.job.log}"
    name = event.job.folder.name
    return f"{name} was ended from outside, and continues{where} from its checkpoint"


def last_step(folder: Path) -> int:
    """The last step in metrics.csv, the only file that every fleet writes as it trains."""
    try:
        with (folder / "metrics.csv").open("rb") as file:
            names = file.readline().strip().split(b",")
            file.seek(max(file.tell(), file.seek(0, 2) - TAIL))
            line = file.read().splitlines()[-1]
        return int(line.split(b",")[names.index(b"step")])
    except (OSError, ValueError, IndexError):  # not written yet
        return 0


def _far(job: Job) -> str:
    return f"{last_step(job.folder):,}/{job.steps:,}" if job.steps else "runs"
