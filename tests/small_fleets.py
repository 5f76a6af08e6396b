"""Small fleets for tests of executors, and what they must end with."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from worlds import noise

from lobsdice.algorithms import BC
from lobsdice.data.formats import write
from lobsdice.executors.job import Event, Executor, Job
from lobsdice.executors.remote import hashed
from lobsdice.executors.train import job_of
from lobsdice.executors.watch import last_step
from lobsdice.training.engine import Options
from lobsdice.training.recipe import Recipe

STEPS = 120


def recipe(folder: Path, seeds: int = 1) -> Recipe:
    """A fleet of behaviour cloning that writes thirty checkpoints."""
    for name, steps, seed in (("demos.npz", 40, 1), ("logs.npz", 80, 0)):
        if not (folder.parent / name).exists():
            write(folder.parent / name, noise(steps, seed=seed))
    return Recipe(
        out=folder,
        expert=(str(folder.parent / "demos.npz"),),
        offline=(str(folder.parent / "logs.npz"),),
        seeds=seeds,
        every=4,
        training=Options(steps=STEPS, batch_size=8),
        algorithm=BC(width=8),
    )


def job(folder: Path, seeds: int = 1) -> Job:
    """The fleet as a job, with the numbers of this process."""
    given = recipe(folder, seeds)
    found = job_of(given, given.about(["test"]))
    return replace(found, variables=(*found.variables, ("JAX_ENABLE_X64", "1")))


def whole(folder: Path, seeds: int = 1) -> dict[str, bytes]:
    """What the fleet ends with if it trains in this process and nothing happens."""
    given = recipe(folder, seeds)
    given.train(given.about(["test"]))
    return results(folder)


def results(folder: Path) -> dict[str, bytes]:
    """The metrics and the policies of a fleet."""
    paths = [folder / "metrics.csv", *sorted((folder / "policies").iterdir())]
    return {path.name: path.read_bytes() for path in paths}


def run(executor: Executor, jobs: list[Job], happens=lambda: None) -> list[Event]:
    """All events. Once every fleet has written a step, they are held while something `happens`."""
    events, waiting = [], True
    with held(jobs) as release:
        for event in executor.run(jobs):
            if event:
                events.append(event)
            if waiting and all(last_step(job.folder) for job in jobs):
                assert all(last_step(job.folder) < STEPS for job in jobs), "it happens too late"
                happens()
                release()
                waiting = False
    assert not waiting
    return events


@contextmanager
def held(jobs: list[Job]) -> Iterator[Callable[[], None]]:
    """Stop the program of each fleet after its first step, until the yielded function is called."""
    stopped: dict[str, int] = {}
    released = threading.Event()

    def hold() -> None:
        while not released.wait(0.005):
            for job in jobs:
                program = program_of(job)
                if program and str(job.folder) not in stopped and last_step(program.folder):
                    os.kill(program.number, signal.SIGSTOP)
                    stopped[str(job.folder)] = program.number

    def release() -> None:
        released.set()
        thread.join()
        for number in stopped.values():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield release
    finally:
        release()


class Program(NamedTuple):
    """The process of the program of a fleet, and the folder it writes to."""

    number: int
    folder: Path


def program_of(job: Job) -> Program | None:
    """The program of a fleet, if it runs: in its folder, or in a copy of it."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode().split("\0")
        except OSError:  # it has just ended
            continue
        if "lobsdice.executors.train" in words:
            folder = words[words.index("lobsdice.executors.train") + 1]
            if folder == str(job.folder) or folder.endswith(hashed(str(job.folder))):
                return Program(int(path.parent.name), Path(folder))
    return None


def signal_parent(job: Job, number: int) -> None:
    """Send a signal to the process that started the program of a fleet."""
    program = program_of(job)
    assert program
    status = Path(f"/proc/{program.number}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(status[1]), number)
