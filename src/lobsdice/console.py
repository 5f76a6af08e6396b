"""All that users see on a terminal: results, messages, and progress while they wait.

Names of files, sources and columns come from strangers. Here they are shown as they are: no markup
is read in them, and no control character of theirs reaches the terminal.
"""

import html
import sys
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
#: Seconds between two lines of progress where there is no terminal, as in the log of a job.
SECONDS_BETWEEN_LINES = 60.0
SECONDS_BETWEEN_BARS = 0.25
#: Seconds after which a user wants to see progress.
PATIENCE = 2.0


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """Yield `advance(n=1, note="")`, to be called as work gets done; the bar shows the note."""
    show_progress = _bar if err.is_terminal else _notebook if err.is_jupyter else _lines
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


def warn(line: str) -> None:
    """Print a warning on standard error, even if messages are not wanted."""
    if err.quiet:
        print(plain(f"warning: {line}"), file=sys.stderr)
    else:
        say(f"warning: {line}")


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """Leave out messages and progress; results, warnings and errors stay."""
    before, err.quiet = err.quiet, err.quiet or wanted
    try:
        yield
    finally:
        err.quiet = before


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
def _notebook(description: str, total: int) -> Iterator[Advance]:
    """Show a bar in the output of a notebook's cell. rich's own would need ipywidgets."""
    from IPython.display import HTML, display

    start, shown, done = time.monotonic(), 0.0, 0
    handle: Any = display(HTML(_notebook_bar(description, 0, total, 0, "")), display_id=True)

    def advance(n: int = 1, note: str | None = None) -> None:
        nonlocal shown, done
        done, now = done + n, time.monotonic()
        if now - shown >= SECONDS_BETWEEN_BARS or done >= total:
            shown = now
            handle.update(HTML(_notebook_bar(description, done, total, now - start, note or "")))

    yield advance


def _notebook_bar(description: str, done: int, total: int, seconds: float, note: str) -> str:
    text = f"{description}: {done:,}/{total:,}, {seconds:.0f} s {note}"
    return f'<progress max="{total}" value="{done}"></progress> {html.escape(plain(text))}'


@contextmanager
def _lines(description: str, total: int) -> Iterator[Advance]:
    """Print a line a minute, and none for a short job."""
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
