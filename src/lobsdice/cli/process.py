"""The process of a command: its streams, the width of its terminal, Ctrl-C, and how it ends."""

import _thread
import atexit
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NoReturn

from lobsdice.errors import LobsDICEError

#: Columns of the narrowest terminal. In 5 columns tyro looks for room for its help without end.
NARROWEST = 40
#: Seconds after which a lost Ctrl-C comes again.
AGAIN = 0.05


class Stream:
    """Standard output or standard error.

    Characters that its encoding lacks are written as escapes. If it is closed or its disk is full,
    a result that is lost is an error, and a message that is lost is not.
    """

    def __init__(self, inner: Any, name: str, *, results: bool):
        self.closed_from_the_start = inner is None
        self.inner = inner or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        self.name, self.results = name, results

    def write(self, text: str) -> int:
        encoding = self.inner.encoding or "utf-8"
        self._attempt(self.inner.write, text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        self._attempt(self.inner.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _attempt(self, job: Any, *arguments: Any) -> None:
        if self.closed_from_the_start and arguments and self.results:
            raise LobsDICEError(f"{self.name} is closed, so that no result can be printed")
        try:
            job(*arguments)
        except OSError as error:
            self._discard()
            if not self.results:
                return
            if isinstance(error, BrokenPipeError):  # the reader has seen enough
                raise
            raise LobsDICEError(f"cannot write to {self.name}: {error.strerror}") from error

    def _discard(self) -> None:
        """Write to nowhere from now on: Python would complain when it flushes at exit."""
        with suppress(OSError, ValueError):  # a stream of a test has no descriptor
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.inner.fileno())


@contextmanager
def own_process() -> Iterator[None]:
    """Prepare the process for a command, and leave everything as it was."""
    with ExitStack() as stack:
        for prepared in (_open_descriptors, _streams, _wide_enough, _kept_interrupts):
            stack.enter_context(prepared())
        yield


@contextmanager
def _open_descriptors() -> Iterator[None]:
    """Open closed standard descriptors, which the next open file would otherwise take."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    yield


@contextmanager
def _streams() -> Iterator[None]:
    before: Any = sys.stdout, sys.stderr
    sys.stdout = Stream(before[0], "standard output", results=True)  # pyright: ignore
    sys.stderr = Stream(before[1], "standard error", results=False)  # pyright: ignore
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def _wide_enough() -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    if shutil.get_terminal_size().columns >= NARROWEST:
        yield
        return
    os.environ["COLUMNS"] = str(NARROWEST)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


@contextmanager
def _kept_interrupts() -> Iterator[None]:
    """Repeat a Ctrl-C that came during a callback of Python's, which drops all exceptions."""
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            return before(lost)
        # Not at once: it would be raised, and lost, in this hook.
        timer = threading.Timer(AGAIN, _interrupt)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt() -> None:
    main = threading.main_thread().ident
    if main is None or not hasattr(signal, "pthread_kill"):  # on Windows
        return _thread.interrupt_main()
    signal.pthread_kill(main, signal.SIGINT)  # which ends waiting as well


def leave(code: int) -> NoReturn:
    """End an interrupted process at once.

    If JAX was interrupted while it imported, traced or compiled, then it crashes when Python frees
    its objects at the end (seen in 13 of 25 interrupts of `lobsdice experiment circle`).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
