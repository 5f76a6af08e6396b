"""Fleets as an array of jobs on a Slurm cluster, submitted with submitit.

All machines must see the folder of results and the data. A job whose time is nearly over, or that
is preempted, is queued again, and its fleet goes on from its checkpoint.
"""

import logging
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lobsdice.errors import LobsDICEError, require
from lobsdice.executors.job import Event, Events, Job
from lobsdice.executors.program import end_from_handler, start

#: Seconds between two looks at the queue. submitit asks Slurm less often.
PAUSE = 1.0


@dataclass(frozen=True)
class Slurm:
    """Runs each program in a job of an array."""

    folder: Path
    """The folder of submitit: the jobs, and Slurm's messages about them."""
    options: Mapping[str, Any]
    """Options of `submitit.AutoExecutor.update_parameters`."""
    retries: int = 3
    """The number of times a job is queued again when its time is over."""
    cluster: str = "slurm"
    """A cluster of submitit: `slurm`, or `local` for processes of this machine."""

    @property
    def cores(self) -> int:
        return self.options.get("cpus_per_task", 1)

    def run(self, jobs: Iterable[Job]) -> Events:
        """Submit all jobs in one array. Closing the generator cancels those that have not ended."""
        given = list(jobs)
        waiting = dict(zip(given, self._submit(given), strict=True))
        begun: set[Job] = set()
        try:
            while waiting:
                for job, sent in list(waiting.items()):
                    # Its output tells that it runs also where Slurm keeps no accounts.
                    if job not in begun and sent.paths.stdout.exists():
                        begun.add(job)
                        yield Event(job, "begun", where=f"Slurm (job {sent.job_id})")
                    if sent.done():
                        del waiting[job]
                        yield Event(job, "ended", _status(sent))
                yield None
                time.sleep(PAUSE)
        finally:
            for sent in waiting.values():
                sent.cancel(check=False)

    def _submit(self, jobs: list[Job]) -> list[Any]:
        submitit = require("submitit", needed_by="--on slurm", extra="slurm")
        logging.getLogger("submitit").setLevel(logging.ERROR)
        try:
            again = {f"{self.cluster}_max_num_timeout": self.retries}
            executor = submitit.AutoExecutor(self.folder, cluster=self.cluster, **again)
            executor.update_parameters(**self.options)
            return executor.map_array(Fleet(), jobs)
        except (RuntimeError, ValueError, NameError, OSError) as error:
            raise LobsDICEError(f"Slurm cannot be used here: {error}") from error


class Fleet:
    """The work of a job: to run the program of a fleet. submitit sends it to the machine."""

    process: "subprocess.Popen[bytes] | None" = None

    def __call__(self, job: Job) -> int:
        self.process = start(job, shares_gpu=False)
        return self.process.wait()

    def checkpoint(self, job: Job) -> Any:
        """End the program, and queue the same job again; submitit calls it in time."""
        if self.process is not None:
            end_from_handler(self.process)
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(Fleet(), job)


def _status(sent: Any) -> int:
    """The exit status of a job's program; that of a killed one if the job did not come so far."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return sent.result()
    except (FailedJobError, UncompletedJobError):
        return -9
