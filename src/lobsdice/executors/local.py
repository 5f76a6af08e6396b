"""Fleets in processes of this machine, some at a time."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from lobsdice.data.machine import cores
from lobsdice.executors.job import Event, Events, Job, killed
from lobsdice.executors.program import end, start

#: Seconds between two looks at which programs have ended.
PAUSE = 0.1
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass
class Running:
    """A program that was started, and how often it was ended from outside before."""

    process: subprocess.Popen[bytes]
    slot: int
    """Its place among those that run at the same time."""
    tries: int = 0


@dataclass(frozen=True)
class Local:
    """Runs `at_a_time` programs on this machine, each with its share of the GPUs."""

    at_a_time: int = 1
    retries: int = 0
    """The number of times a program goes on after an end from outside, such as lack of memory."""

    @property
    def cores(self) -> int:
        return max(1, cores() // self.at_a_time)

    def run(self, jobs: Iterable[Job]) -> Events:
        """Run the jobs. The next one is drawn when a process is free."""
        waiting, running = iter(jobs), dict[Job, Running]()
        try:
            while True:
                for job in islice(waiting, self.at_a_time - len(running)):
                    taken = {one.slot for one in running.values()}
                    slot = next(i for i in range(self.at_a_time) if i not in taken)
                    running[job] = Running(self._start(job, slot), slot)
                    yield Event(job, "begun")
                if not running:
                    return
                for job in [j for j, one in running.items() if one.process.poll() is not None]:
                    yield self._ended(job, running)
                yield None
                time.sleep(PAUSE)
        finally:
            for one in running.values():
                end(one.process)

    def _ended(self, job: Job, running: dict[Job, Running]) -> Event:
        """Start a program again that was killed; otherwise tell how it ended."""
        one = running.pop(job)
        with one.process as process:
            status = process.returncode
        if not killed(status) or one.tries >= self.retries:
            return Event(job, "ended", status)
        running[job] = Running(self._start(job, one.slot), one.slot, one.tries + 1)
        return Event(job, "again", status)

    def _start(self, job: Job, slot: int) -> subprocess.Popen[bytes]:
        mine = share(self._gpus, slot, self.at_a_time)
        variables = {VISIBLE: ",".join(mine)} if mine else {}
        shares_gpu = len(self._gpus) < self.at_a_time
        return start(job, shares_gpu=shares_gpu, variables=variables)

    @cached_property
    def _gpus(self) -> list[str]:
        return visible_gpus()


def share(gpus: Sequence[str], slot: int, slots: int) -> list[str]:
    """The GPUs of one of several programs: its own, as many as there are; else one with others."""
    return list(gpus[slot::slots] or gpus[slot % len(gpus) :][:1]) if gpus else []


def visible_gpus() -> list[str]:
    """The NVIDIA GPUs that programs may use here, by the names of $CUDA_VISIBLE_DEVICES."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name for name in named.split(",") if name]
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True)
    return found.stdout.split() if found.returncode == 0 else []
