"""Options of commands that say where fleets train; light to import."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.executors.job import Executor


@dataclass(frozen=True)
class Where:
    """The place where fleets train, and its resources."""

    on: Literal["local", "ray", "slurm"] = "local"
    """The place where fleets train: this machine (local), the Ray cluster of $RAY_ADDRESS or a new
    one of this machine (ray), or a Slurm cluster, as an array of jobs (slurm)."""
    cpus: int = 1
    """Processors of each fleet on a cluster. Its evaluations use them all."""
    gpus: float | None = None
    """GPUs of each fleet on a cluster. On Ray a part of one, such as 0.25, lets fleets share it.
    Without it, 1 on a Ray cluster that has any, and none on Slurm."""
    retries: int = 3
    """The number of times a fleet goes on from its checkpoint after its process or machine was lost
    or, on Slurm, its time was over."""
    storage: Literal["ask", "shared", "copied"] = "ask"
    """On Ray: all machines see the folder of results and the data under the same paths (shared),
    files go through Ray (copied), or each machine is asked what it sees (ask)."""
    hours: float = 24.0
    """Time limit of a job on Slurm. A fleet that needs longer is queued again."""
    memory: float | None = None
    """Memory of a job on Slurm, in GB."""
    slurm: tuple[str, ...] = ()
    """Further options of sbatch, such as partition=gpu account=mine."""

    def executor(self, folder: Path, jobs: int | None = None) -> "Executor | None":
        """The executor for `jobs` fleets at a time; None to train in this process, one by one.

        Files of the cluster go to a folder in `folder`.
        """
        if jobs is not None and jobs < 1:
            raise LobsDICEError(f"`jobs` is {jobs}; it must be at least 1")
        self._check()
        if self.on == "ray":
            from lobsdice.executors.ray import Ray

            shared = {"ask": None, "shared": True, "copied": False}[self.storage]
            return Ray(self.cpus, self.gpus, self.retries, shared, jobs)
        if self.on == "slurm":
            from lobsdice.executors.slurm import Slurm

            return Slurm(folder.absolute() / "slurm", self._sbatch(jobs), self.retries)
        if jobs is None or jobs == 1:
            return None
        from lobsdice.executors.local import Local

        return Local(jobs, self.retries)

    def _check(self) -> None:
        for name, least in {"cpus": 1, "gpus": 0, "retries": 0, "hours": 0, "memory": 0}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise LobsDICEError(f"`{name}` is {value}; it must be at least {least}")
        for option in self.slurm:
            if "=" not in option:
                raise LobsDICEError(f"--slurm {option} is not of the form NAME=VALUE")

    def _sbatch(self, jobs: int | None) -> Mapping[str, object]:
        """The options of sbatch, by the names that submitit has for them."""
        given = dict(option.split("=", 1) for option in self.slurm)
        parallel = {} if jobs is None else {"slurm_array_parallelism": jobs}
        memory = {} if self.memory is None else {"mem_gb": self.memory}
        gpus = {} if not self.gpus else {"gpus_per_node": int(-(-self.gpus // 1))}
        return {
            "name": "lobsdice",
            "timeout_min": max(1, round(60 * self.hours)),
            "cpus_per_task": self.cpus,
            **parallel,
            **memory,
            **gpus,
            "slurm_additional_parameters": given,
        }
