"""A job: a fleet to train in its folder, as a program that any machine can run, again if need be.

An executor runs jobs and tells what happens to each. It never looks into a run: the program trains
the fleet of a folder, and goes on from the folder's checkpoint if there is one.
"""

import json
import signal
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

#: The file in a fleet's folder with all that its program prints.
LOG = "log.txt"
#: Signals from outside. Others, such as that of a failed assertion, would come again.
KILLED = [getattr(signal, f"SIG{name}", None) for name in ("KILL", "TERM", "INT", "HUP")]


@dataclass(frozen=True)
class Job:
    """The program of a fleet: `python ARGUMENTS`, with all paths absolute."""

    folder: Path
    """The folder of the fleet, which the program writes to."""
    arguments: tuple[str, ...]
    steps: int = 0
    """Gradient steps of the fleet, to show its progress."""
    data: tuple[Path, ...] = ()
    """The files that the program reads."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables of the program."""

    @property
    def log(self) -> Path:
        """The file of all that the program prints."""
        return self.folder / LOG


def make_job(
    program: Sequence[str],
    folder: Path,
    settings: Mapping[str, Any],
    *,
    steps: int,
    data: Iterable[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Job:
    """The job `python PROGRAM FOLDER SETTINGS`."""
    folder, given = folder.absolute(), json.dumps(settings, ensure_ascii=False)
    files = tuple(dict.fromkeys(path.absolute() for path in data))
    arguments = (*program, str(folder), given)
    return Job(folder, arguments, steps, files, tuple((variables or {}).items()))


class Event(NamedTuple):
    """An event in the life of a job."""

    job: Job
    what: Literal["begun", "again", "ended"]
    status: int = 0
    """The exit status of its program; negative if a signal ended it."""
    where: str = ""
    """The machine that runs it."""


#: What happens to jobs. An executor also yields None, often, so that time can be told.
Events = Generator[Event | None, None, None]


@runtime_checkable
class Executor(Protocol):
    """Runs the programs of fleets, again after a failure that is not their own."""

    @property
    def cores(self) -> int:
        """The processors for each fleet."""
        ...

    def run(self, jobs: Iterable[Job]) -> Events:
        """Run the jobs, and yield what happens.

        Closing the generator, as Ctrl-C does, ends what it started.
        """
        ...


def killed(status: int) -> bool:
    """True if something from outside ended a program, such as the system for lack of memory."""
    return -status in KILLED
