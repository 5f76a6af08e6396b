"""Work that takes a process for itself, such as a program of JAX; several go on at a time.

Each process does one piece of work and writes what it has to say to a file. Like those of
`environments/workers.py` they are plain interpreters fed through pipes. A pipe that is closed
tells them that the parent is gone, however it went, and they go with it.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from lobsdice.environments.workers import search_path

SERVE = "from lobsdice.experiments.control.processes import serve; serve()"
#: Seconds between two looks at what has ended.
PAUSE = 0.1
#: Where processes share a GPU, none takes all its memory, and none tries out kernels on a device
#: that is busy, with which XLA takes 80 s to compile, not 10 s. What the user has set stands.
SHARED_GPU = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}


def apart(
    jobs: Iterable[tuple[Path, Callable[[], object]]], at_a_time: int
) -> Generator[tuple[Path, int], None, None]:
    """Do each job in a process of its own; yield its log and exit status when it has ended.

    A job is a file for what it says and a function that can be pickled; it is drawn when there is
    room for it. Leaving the loop early, by Ctrl-C too, ends the processes.
    """
    waiting = iter(jobs)
    running: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        while True:
            for log, work in islice(waiting, at_a_time - len(running)):
                running[log] = _start(work, log)
            if not running:
                return
            for log in [log for log, process in running.items() if process.poll() is not None]:
                yield log, _end(running.pop(log))
            time.sleep(PAUSE)
    finally:
        for process in running.values():
            process.kill()
        for process in running.values():
            _end(process)


def serve() -> None:
    """What each process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    work = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work()


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing more comes: this waits until the parent closes the pipe
    os._exit(1)


def _start(work: Callable[[], object], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env={**_defaults(), **os.environ, "PYTHONPATH": search_path()},
        )
    assert process.stdin
    with suppress(BrokenPipeError):  # it died at once, which its exit status will tell
        pickle.dump(work, process.stdin)
        process.stdin.flush()
    return process


def _defaults() -> dict[str, str]:
    """Only for a JAX that has an accelerator: XLA aborts if it ceases to know one of its flags."""
    return SHARED_GPU if find_spec("jax_plugins") else {}


def _end(process: subprocess.Popen[bytes]) -> int:
    status = process.wait()
    assert process.stdin
    with suppress(BrokenPipeError):  # what was still to be sent to it
        process.stdin.close()
    return status
