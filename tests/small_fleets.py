"""Small fleets for tests of executors, and what they must end with."""

import os
from dataclasses import replace
from pathlib import Path

from worlds import noise

from lobsdice.algorithms import BC
from lobsdice.data.formats import write
from lobsdice.executors.job import Event, Executor, Job
from lobsdice.executors.train import job_of
from lobsdice.executors.watch import last_step
from lobsdice.training.engine import Options
from lobsdice.training.recipe import Recipe

STEPS = 240


def recipe(folder: Path, seeds: int = 1) -> Recipe:
    """A fleet of behaviour cloning that writes sixty checkpoints."""
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
    """All events. Once every fleet has begun to write, something `happens`."""
    events, waiting = [], True
    for event in executor.run(jobs):
        if event:
            events.append(event)
        if waiting and all(last_step(job.folder) for job in jobs):
            assert all(last_step(job.folder) < STEPS for job in jobs), "it happens too late"
            happens()
            waiting = False
    assert not waiting
    return events


def program_of(job: Job) -> int | None:
    """The process of the program of a fleet, if it runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        if b"lobsdice.executors.train" in words and str(job.folder).encode() in words:
            return int(path.parent.name)
    return None


def signal_parent(job: Job, number: int) -> None:
    """Send a signal to the process that started the program of a fleet."""
    status = Path(f"/proc/{program_of(job)}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(status[1]), number)
