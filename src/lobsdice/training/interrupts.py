"""Ctrl-C that is not lost.

Python raises KeyboardInterrupt wherever the program happens to be. If that is a callback of the
garbage collector, such as JAX's, Python prints "Exception ignored in" and the program goes on.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C end the block, and yield a function that raises KeyboardInterrupt if one was lost.

    A second Ctrl-C ends the process at once. Where Ctrl-C does not have its usual meaning, as in
    threads and in processes that ignore it, nothing changes.
    """
    pressed = threading.Event()

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    def interrupt(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    except Exception:
        check()  # libraries may turn it into an error of their own
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
