"""Programs that end with this process, which no executor of Python promises; each has a log file.

The standard input of each is a pipe from this process, which nothing is written to. It closes when
this process ends in any way, and `end_with_parent` then ends the program.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from lobsdice.environments.workers import search_path

#: Seconds between two looks at which programs have ended.
PAUSE = 0.1
#: Defaults for programs that share a GPU; the user's own settings have priority. No program takes
#: all memory. None measures kernels on the busy device, with which XLA compiles in 80 s, not 10 s.
SHARED_GPU = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}


def apart(
    jobs: Iterable[tuple[Path, Sequence[str]]], at_a_time: int
) -> Generator[tuple[Path, int], None, None]:
    """Run each job, a log file and a command; yield the log and the exit status when it has ended.

    The next job is drawn when a process is free. Leaving the loop early, also by Ctrl-C, ends the
    processes.
    """
    waiting = iter(jobs)
    running: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        while True:
            for log, command in islice(waiting, at_a_time - len(running)):
                running[log] = _start(command, log)
            if not running:
                return
            for log in [log for log, process in running.items() if process.poll() is not None]:
                with running.pop(log) as process:
                    yield log, process.returncode
            time.sleep(PAUSE)
    finally:
        for process in running.values():
            with process:  # waits for its end
                process.kill()


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    # Only where JAX has an accelerator: XLA aborts when it does not know one of its flags.
    defaults = SHARED_GPU if find_spec("jax_plugins") else {}
    # No file in the current folder may stand for a module.
    python = {"PYTHONPATH": search_path(), "PYTHONSAFEPATH": "1"}
    environment = {**defaults, **os.environ, **python}
    with log.open("ab") as file:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment
        )


def end_with_parent() -> None:
    """Let this process, started by `apart`, end with the one that started it, not by Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    os.read(0, 1)  # returns when the pipe closes
    os._exit(1)
