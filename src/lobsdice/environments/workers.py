"""A pool of processes by hand: loky 3.7 delays Ctrl-C until all jobs of a background thread end.

Training evaluates in such a thread. Interrupted one second into 15 s of jobs, a program ended after
15.8 s with loky and after 1.1 s here. Without pgrep and psutil, loky hung. A file `random.py` in
the current folder broke it. Two of its workers started in 0.2 s (0.8 s in joblib's copy), two of
these in 0.05 s. The processes of `multiprocessing` import the user's script again, which then needs
`if __name__ == "__main__"`. Forked processes are not safe beside the threads of JAX.

These processes are plain interpreters that get jobs through a pipe. They wait for more work until
the program ends, because training evaluates its policies many times.
"""

import atexit
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from lobsdice.errors import LobsDICEError

Job = TypeVar("Job")
Result = TypeVar("Result")
Process = subprocess.Popen[bytes]
Work = Callable[[Any], Any]
Queue = queue.SimpleQueue[Any]

SERVE = "from lobsdice.environments.workers import serve; serve()"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

#: Processes that wait for work, with the search path that they were started with.
IDLE: list[tuple[str, Process]] = []


def as_completed(
    work: Callable[[Job], Result], jobs: Sequence[Job], workers: int
) -> Generator[tuple[Job, Result], None, None]:
    """Yield each job with its result as soon as it is done; `work` is a function of a module.

    Leaving the loop early, also by Ctrl-C, ends the processes.
    """
    if workers < 1 and jobs:
        raise LobsDICEError(f"work needs at least 1 worker, not {workers}")
    if workers <= 1:
        yield from ((job, work(job)) for job in jobs)
        return
    pending, done = queue.SimpleQueue(), queue.SimpleQueue()
    for job in jobs:
        pending.put(job)
    path = search_path()
    processes = [_idle(path) or _start(path) for _ in range(workers)]
    # An executor's threads would keep an interrupted program from ending: Python joins them.
    threads = [
        threading.Thread(target=_feed, args=(process, work, pending, done), daemon=True)
        for process in processes
    ]
    try:
        for thread in threads:
            thread.start()
        yield from (_value(*done.get()) for _ in jobs)
    except BaseException:
        _end(processes, threads)
        raise
    IDLE.extend((path, process) for process in processes)


def _idle(path: str) -> Process | None:
    """A living process that waits for work and searches this path, if there is one."""
    IDLE[:] = [(its_path, process) for its_path, process in IDLE if process.poll() is None]
    places = [i for i, (its_path, _) in enumerate(IDLE) if its_path == path]
    return IDLE.pop(places[-1])[1] if places else None


def _start(path: str) -> Process:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
    )


def search_path() -> str:
    """The $PYTHONPATH with which another interpreter finds the modules that this one finds.

    A notebook and `python -c` search the current folder first, which has no name there. For the
    other interpreter it comes last: no file in it can replace a module of Python or of a package.
    """
    here = [os.getcwd()] if "" in sys.path else []
    return os.pathsep.join([*filter(None, sys.path), *here])


def _feed(process: Process, work: Work, pending: Queue, done: Queue) -> None:
    """Hand a process one pending job after the other, up to the first error."""
    outcome = None
    with suppress(queue.Empty):
        while not isinstance(outcome, Exception):
            job = pending.get_nowait()
            outcome = _ask(process, work, job)
            done.put((job, outcome))


def _ask(process: Process, work: Work, job: Any) -> Any:
    """The result of a job, or the error that prevented it."""
    assert process.stdin and process.stdout
    try:
        pickle.dump((work, job), process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        return LobsDICEError(f"a worker process died (exit status {process.wait()})")
    except Exception as error:  # such as of a job that cannot be pickled
        return error


def _value(job: Any, outcome: Any) -> tuple[Any, Any]:
    if isinstance(outcome, Exception):
        raise outcome
    return job, outcome


def _end(processes: Sequence[Process], threads: Sequence[threading.Thread]) -> None:
    for process in processes:
        process.kill()
    for thread in threads:
        if thread.ident:  # a thread that never started cannot be joined
            thread.join()
    for process in processes:
        with suppress(OSError):  # of a job that was sent in part
            process.communicate()


@atexit.register
def _end_idle() -> None:
    _end([process for _, process in IDLE], [])


def serve() -> None:
    """Answer jobs until the parent ends: the program of each process."""
    _end_with_parent()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that no printed text mixes with the replies
    jobs: Queue = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    with suppress(BrokenPipeError):  # the parent is gone
        while True:
            pickle.dump(_outcome(*jobs.get()), replies, protocol=pickle.HIGHEST_PROTOCOL)
            replies.flush()


def _end_with_parent() -> None:
    """Let this process end with the one that holds its standard input, and not by Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(select, "poll"):  # not on Windows
        threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    """Wait until the pipe is closed, and not until all jobs in it are read."""
    pipe = select.poll()
    pipe.register(0, 0)  # it reports no data, only the end
    pipe.poll()
    os._exit(1)


def _receive(jobs: Queue) -> None:
    """Read jobs, and end the process with its parent."""
    try:
        while True:
            jobs.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _outcome(work: Work, job: Any) -> Any:
    try:
        return work(job)
    except LobsDICEError as error:
        return error
    except Exception:  # not every exception survives pickling
        return RuntimeError(traceback.format_exc())
