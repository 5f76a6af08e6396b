"""All that users see on a terminal: results, messages, and progress while they wait.

Names of files, sources and columns come from strangers. Here they are shown as they are: no markup
is read in them, and no control character of theirs reaches the terminal.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from lobsdice.errors import plain

#: Options to print text without reading markup or emoji codes in it, or colouring its numbers.
AS_IT_IS: Any = {"markup": False, "emoji": False, "highlight": False}

#: Results go to `out` and messages to `err`, so that `--json | jq` works.
out = Console(soft_wrap=True, **AS_IT_IS)
err = Console(stderr=True, soft_wrap=True, **AS_IT_IS)

Advance = Callable[..., None]
SECONDS_BETWEEN_LINES = 5.0
#: Seconds after which a user wants to see progress.
PATIENCE = 2.0


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """Yield `advance(n=1, note="")`, to be called as work gets done; the bar shows the note."""
    show_progress = _bar if err.is_terminal else _lines
    with show_progress(plain(description), total) as advance:
        yield advance


@contextmanager
def waiting(description: str) -> Iterator[None]:
    """Show that work of unknown length goes on, once it has lasted `PATIENCE` seconds."""
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        auto_refresh=err.is_terminal,
        disable=not err.is_terminal,
    ) as bar:
        timer = threading.Timer(PATIENCE, _show_waiting, (bar, description))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _show_waiting(bar: Progress, description: str) -> None:
    if err.is_terminal:
        bar.add_task(plain(description), total=None)
    else:
        say(f"{description} ...")


def say(line: str) -> None:
    """Print a line on standard error."""
    err.print(plain(line), **AS_IT_IS)


def show(line: str) -> None:
    """Print a line on standard output."""
    out.print(plain(line), **AS_IT_IS)


@contextmanager
def _bar(description: str, total: int) -> Iterator[Advance]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(n: int = 1, note: str | None = None) -> None:
            bar.update(task, advance=n)
            if note is not None:
                bar.update(task, note=note)

        yield advance


@contextmanager
def _lines(description: str, total: int) -> Iterator[Advance]:
    """Print a line every few seconds, and none for a short job."""
    start = last = time.monotonic()
    done = 0

    def advance(n: int = 1, note: str | None = None) -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES or (done >= total and now - start > PATIENCE):
            last = now
            line = f"{description}: {done}/{total}, {now - start:.0f} s {note or ''}"
            say(line.rstrip())

    yield advance
