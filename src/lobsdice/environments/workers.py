"""Work for several processes, handed out job by job.

Processes that are done wait for more work until the program ends: starting one takes a second, and
a run in training is evaluated many times. They are plain interpreters fed through pipes. Unlike
those of `multiprocessing` they do not import the user's script again (so it needs no
`if __name__ == "__main__"`), and unlike forked ones they are safe beside the threads of JAX.
"""

import atexit
import os
import pickle
import queue
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

SERVE = "from lobsdice.environments.workers import serve; serve()"

#: Processes that wait for work.
IDLE: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()


def cores() -> int:
    """The number of processors that this process may use."""
    with suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def as_completed(
    work: Callable[[Job], Result], jobs: Sequence[Job], workers: int
) -> Generator[tuple[Job, Result], None, None]:
    """Each job with its result, in the order in which they get done; `work` is a module's function.

    Leaving the loop early, by Ctrl-C too, ends the processes.
    """
    if workers < 1 and jobs:
        raise LobsDICEError(f"work needs at least 1 worker, not {workers}")
    if workers == 1:
        yield from ((job, work(job)) for job in jobs)
        return
    pending, done = queue.SimpleQueue(), queue.SimpleQueue()
    for job in jobs:
        pending.put(job)
    processes = [_idle() or _start() for _ in range(workers)]
    feeders = [
        threading.Thread(target=_feed, args=(p, work, pending, done), daemon=True)
        for p in processes
    ]
    try:
        for feeder in feeders:
            feeder.start()
        yield from (_value(*done.get()) for _ in jobs)
    except BaseException:
        _end(processes, feeders)
        raise
    for process in processes:
        IDLE.put(process)


def _idle() -> subprocess.Popen[bytes] | None:
    """A living process that waits for work, if there is one."""
    with suppress(queue.Empty):
        while True:
            process = IDLE.get_nowait()
            if process.poll() is None:
                return process
    return None


@atexit.register
def _end_idle() -> None:
    while process := _idle():
        _end([process], [])


def serve() -> None:
    """What each process does: answer jobs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that nobody's print can garble the replies
    with suppress(EOFError, BrokenPipeError):  # the parent is done, or gone
        while True:
            work, job = pickle.load(sys.stdin.buffer)
            pickle.dump(_outcome(work, job), replies, protocol=pickle.HIGHEST_PROTOCOL)
            replies.flush()


def _outcome(work: Callable[[Any], Any], job: Any) -> Any:
    try:
        return work(job)
    except LobsDICEError as error:
        return error
    except Exception:  # not every exception survives pickling
        return RuntimeError(traceback.format_exc())


def _start() -> subprocess.Popen[bytes]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **one_thread, "PYTHONPATH": search_path()},
    )


def search_path() -> str:
    """With this as $PYTHONPATH another interpreter finds all modules that this one finds."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


def _feed(process: subprocess.Popen[bytes], work, pending, done) -> None:
    assert process.stdin and process.stdout
    with suppress(queue.Empty):
        while True:
            job = pending.get_nowait()
            try:
                pickle.dump((work, job), process.stdin)
                process.stdin.flush()
                done.put((job, pickle.load(process.stdout)))
            except (EOFError, OSError, pickle.UnpicklingError):
                status = process.wait()
                done.put((job, LobsDICEError(f"a worker process died (exit status {status})")))
                return
            except Exception as error:  # such as of a job that cannot be pickled
                done.put((job, error))
                return


def _value(job: Any, outcome: Any) -> tuple[Any, Any]:
    if isinstance(outcome, Exception):
        raise outcome
    return job, outcome


def _end(processes: list[subprocess.Popen[bytes]], feeders: list[threading.Thread]) -> None:
    for process in processes:
        process.kill()
    for feeder in feeders:
        if feeder.ident:  # a thread that never started cannot be joined
            feeder.join()
    for process in processes:
        with suppress(OSError):  # what was still to be sent to it
            process.communicate()
