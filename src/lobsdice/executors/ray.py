"""Fleets as tasks of a Ray cluster. Ray runs a task again if its process or its machine is lost.

If all machines see the folder of results and the data, programs work there. Otherwise the data goes
through Ray's object store, once to each machine, and copies of what a program writes come back
while it trains. A task only carries paths and references.
"""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lobsdice.data.files import atomic
from lobsdice.data.machine import cores
from lobsdice.errors import LobsDICEError, require
from lobsdice.executors.job import Event, Events, Job
from lobsdice.executors.remote import Copies, Letter, Mailbox, hashed, sees, stamps, train

#: Seconds between two looks at the tasks.
PAUSE = 0.3
#: Bytes of a file in one object of Ray's store.
BLOCK = 2**26
#: The exit status of a program whose machines were lost too often.
LOST = -9

#: Variables that Ray reads when it is imported: it sends no statistics of usage.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
LOOPBACK = "127.0.0.1"
#: For a cluster of this machine alone: nothing listens to other machines. Ray has this setting for
#: other systems, which ask users about programs that listen. Without it, Ray would look for a
#: cluster of the loopback address at the machine's other address.
ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Ray starts processes before it answers the first program that connects. If one of them needs
    # longer than a limit, that program waits forever (ray-project/ray, issue 40131). So a busy
    # machine starts none ahead, and has time for each.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_register_timeout_seconds": "180",
}
#: The most seconds until a machine accepts a connection, and until its cluster answers.
KNOCK, ANSWER = 20.0, 300.0
#: A program that ends the process with the number argv[1], with the sentence argv[3], unless its
#: standard input closes within argv[2] seconds.
WATCHDOG = """
import os, select, signal, sys
if not select.select([0], [], [], float(sys.argv[2]))[0]:
    print(sys.argv[3], file=sys.stderr)
    os.kill(int(sys.argv[1]), signal.SIGKILL)
"""


@dataclass(frozen=True)
class Ray:
    """Runs each program in a task of a Ray cluster."""

    cpus: int = 1
    gpus: float | None = None
    """None stands for 1 if the cluster has any."""
    retries: int = 3
    shared: bool | None = None
    """True if all machines see the same files; None asks them."""
    at_a_time: int | None = None
    """Tasks at a time; None: as many as the cluster has room for."""

    @property
    def cores(self) -> int:
        return self.cpus

    def run(self, jobs: Iterable[Job]) -> Events:
        """Run the jobs. Closing the generator cancels the tasks that have not ended."""
        # Ray prints its news to the standard output, which is for results.
        with connected() as ray, redirect_stdout(sys.stderr):
            tasks = Tasks(self, ray)
            try:
                yield from tasks.run(list(jobs))
            finally:
                tasks.cancel()


@dataclass
class Tasks:
    """The tasks of some jobs, from their submission to their end."""

    executor: Ray
    ray: Any
    running: dict[Any, Job] = field(default_factory=dict)
    """Jobs by the references of their tasks' results."""
    mailbox: Any = None
    stored: dict[Path, list[Any]] = field(default_factory=dict)
    """The references of the blocks of each file in Ray's store."""

    def run(self, jobs: Sequence[Job]) -> Events:
        self.mailbox = self._open_mailbox()
        shared = self._is_shared(jobs) if self.executor.shared is None else self.executor.shared
        known, waiting = {str(job.folder): job for job in jobs}, list(reversed(jobs))
        most = self.executor.at_a_time or len(jobs)
        while waiting or self.running:
            while waiting and len(self.running) < most:
                job = waiting.pop()
                self.running[self._submit(job, shared)] = job
            ended, _ = self.ray.wait(list(self.running), timeout=0)
            yield from self._open_letters(known)  # the last ones of tasks that have ended, too
            yield from (self._conclude(task) for task in ended)
            yield None
            time.sleep(PAUSE)

    def cancel(self) -> None:
        """End the tasks; their programs end with them."""
        for task in self.running:
            with suppress(Exception):  # the cluster may be gone
                self.ray.cancel(task, force=True)
        if self.mailbox is not None:
            with suppress(Exception):
                self.ray.kill(self.mailbox)

    def _submit(self, job: Job, shared: bool) -> Any:
        copies = None if shared else self._copies(job)
        options: dict[str, Any] = {
            "name": job.folder.name,
            "num_cpus": self.executor.cpus,
            "num_gpus": self._gpus(),
            "max_retries": self.executor.retries,
        }
        task = self.ray.remote(train).options(**options)
        return task.remote(job, copies, self.mailbox, shares_gpu=options["num_gpus"] < 1)

    def _copies(self, job: Job) -> Copies:
        """The data in Ray's store; what an earlier command left of the fleet goes along."""
        files = {name: (job.folder / name).read_bytes() for name in stamps(job.folder)}
        self.ray.get(self.mailbox.keep.remote(str(job.folder), files))
        facts = [(path, path.stat()) for path in job.data]
        name = hashed(*(f"{p} {fact.st_size} {fact.st_mtime_ns}" for p, fact in facts))
        return Copies({str(path): self._store(path) for path in job.data}, name)

    def _conclude(self, task: Any) -> Event:
        job = self.running.pop(task)
        try:
            return Event(job, "ended", self.ray.get(task))
        except self.ray.exceptions.RayTaskError as error:  # its own, such as a folder not seen
            raise error.as_instanceof_cause() from error
        except self.ray.exceptions.RayError:
            return Event(job, "ended", LOST)

    def _open_letters(self, known: dict[str, Job]) -> Iterator[Event]:
        """Write what the programs of other machines have written, and tell which began."""
        letters: list[Letter] = self.ray.get(self.mailbox.take.remote())
        for letter in letters:
            job = known[letter.folder]
            for name, contents in letter.files.items():
                with atomic(job.folder / name) as temporary:
                    temporary.write_bytes(contents)
            if letter.attempt:
                what = "begun" if letter.attempt == 1 else "again"
                yield Event(job, what, where=letter.where)

    def _store(self, path: Path) -> list[Any]:
        """Put a file into Ray's store, block by block, once."""
        if path not in self.stored:
            with path.open("rb") as file:
                blocks = iter(lambda: file.read(BLOCK), b"")
                self.stored[path] = [self.ray.put(block) for block in blocks]
        return self.stored[path]

    def _gpus(self) -> float:
        if self.executor.gpus is not None:
            return self.executor.gpus
        return float(bool(self.ray.cluster_resources().get("GPU", 0)))

    def _open_mailbox(self) -> Any:
        """A mailbox on the machine of this program: it is there as long as the program is."""
        here = self.ray.get_runtime_context().get_node_id()
        place = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        actor = self.ray.remote(Mailbox).options(
            num_cpus=0, scheduling_strategy=place, max_concurrency=16
        )
        return actor.remote()

    def _is_shared(self, jobs: Sequence[Job]) -> bool:
        """True if every machine sees a new file beside the fleets, and all data."""
        folder = jobs[0].folder.parent if jobs else Path()
        sizes = {str(path): path.stat().st_size for job in jobs for path in job.data}
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / f".seen-{secrets.token_hex(8)}"
        mark.touch()
        try:
            return all(self.ray.get(self._ask_nodes(sizes | {str(mark): 0})))
        finally:
            mark.unlink()

    def _ask_nodes(self, sizes: dict[str, int]) -> list[Any]:
        strategy = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"]]
        return [
            self.ray.remote(sees)
            .options(num_cpus=0, scheduling_strategy=strategy(node, soft=True))
            .remote(sizes)
            for node in nodes
        ]


@contextmanager
def connected() -> Iterator[Any]:
    """A connection to the cluster of $RAY_ADDRESS, or to a new one of this machine alone."""
    address = os.environ.get("RAY_ADDRESS")
    others = address and not address.startswith(LOOPBACK)
    for name, value in (QUIET if others else QUIET | ALONE).items():
        os.environ.setdefault(name, value)
    ray = require("ray", needed_by="--on ray", extra="ray")
    if ray.is_initialized():
        yield ray
        return
    if address:
        knock(address)
    alone: dict[str, Any] = {"address": "local", "num_cpus": cores(), "include_dashboard": False}
    options = {"address": address} if address else alone | {"_node_ip_address": LOOPBACK}
    try:
        with limited(ANSWER, unanswered(address)):
            ray.init(**options, log_to_driver=False, logging_level="error")
        yield ray
    except ConnectionError as error:
        raise LobsDICEError(f"there is no Ray cluster at {address}: {error}") from error
    finally:
        ray.shutdown()


def knock(address: str) -> None:
    """Raise an error if nothing listens at HOST:PORT. Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if "/" in host or not port.isdigit():  # another way to name a cluster
        return
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()
    except OSError as error:
        raise LobsDICEError(f"there is no Ray cluster at {address}: {error}") from error


@contextmanager
def limited(seconds: float, sentence: str) -> Iterator[None]:
    """End this process, with a sentence, if the block needs longer.

    Ray waits in a call that holds Python's lock. Neither a thread nor the handler of a signal could
    end it, but another process can.
    """
    arguments = (str(os.getpid()), str(seconds), f"error: {sentence}")
    with subprocess.Popen(
        [sys.executable, "-I", "-c", WATCHDOG, *arguments], stdin=subprocess.PIPE
    ):
        yield


def unanswered(address: str | None) -> str:
    """The sentence for a cluster that does not answer."""
    said = f"the Ray cluster at {address}" if address else "Ray on this machine"
    started = ", ".join(f"{name}={value}" for name, value in ALONE.items() if "worker" in name)
    return (
        f"{said} did not answer in {ANSWER:g} s. `ray status` tells whether it runs, and "
        "/tmp/ray/session_latest/logs what it does. Where machines start processes slowly, "
        f"start the cluster with {started} in the environment"
    )
