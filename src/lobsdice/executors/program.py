"""The program of a fleet in a process that ends with this one, which no library of Python promises.

The standard input of the process is a pipe from this one, which nothing is written to. It closes
when this process ends in any way, and `end_with_parent` then ends the program.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec

from lobsdice.environments.workers import search_path
from lobsdice.executors.job import Job

#: Defaults for programs that share a GPU; the user's own settings have priority. No program takes
#: all memory. None measures kernels on the busy device, with which XLA compiles in 80 s, not 10 s.
SHARED_GPU = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}


def start(
    job: Job, *, shares_gpu: bool, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the program of a job. What it prints is added to the log in its folder."""
    # Only where JAX has an accelerator: XLA aborts when it does not know one of its flags.
    defaults = SHARED_GPU if shares_gpu and find_spec("jax_plugins") else {}
    # No file in the current folder may stand for a module.
    python = {"PYTHONPATH": search_path(), "PYTHONSAFEPATH": "1"}
    environment = {**defaults, **os.environ, **python, **dict(job.variables), **(variables or {})}
    job.folder.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        command = [sys.executable, *job.arguments]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program at once, and wait until it has."""
    with process:
        process.kill()


def end_from_handler(process: subprocess.Popen[bytes]) -> None:
    """End a program, in the handler of a signal that interrupted `process.wait()`."""
    os.kill(process.pid, signal.SIGKILL)
    # Not `process.wait()`: its lock is taken by the call that was interrupted.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def end_with_parent() -> None:
    """Let this process, started by `start`, end with the one that started it, not by Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    os.read(0, 1)  # returns when the pipe closes
    os._exit(1)
