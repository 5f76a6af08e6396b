"""The speed of training by numbers of workers and of devices, on this machine.

python benchmarks/scaling.py fleets [--fleets 4] [--workers 1 2] [--steps 2000] [--wait 10]
python benchmarks/scaling.py devices [--runs 8] [--devices 1 2] [--steps 400]
python benchmarks/scaling.py rows [--rows 1000000 10000000] [--folder .]

`fleets` trains the same fleets with `local` and with Ray, some at a time, and prints the seconds
from the command to the last result. The efficiency is that of `local` with one worker, divided by
the number of workers. Ray's time has the start of its cluster apart. With `--wait` programs do not
train but wait some seconds, which shows what executors cost even on a busy machine.

`devices` prints milliseconds a step of a fleet that is divided among devices, by the clock and of
the processor, those of the fastest of five chunks. A processor can have
several virtual ones, which share its cores, so that this shows the cost of dividing and no gain.

`rows` writes logs of so many steps as columns, and compares them with 5,000 demonstrated pairs: it
prints the seconds of the audit's coverage and of nearest-pair rewards, by the clock and of the
processor, and the largest memory. Pages of mapped files count in it, though the system can take
them back at any time; `anonymous` memory is what the program needs.

Sizes are Hopper's (11 numbers a state, 3 an action), batch 512, networks of 256 x 256.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from lobsdice import Episodes, LobsDICE
from lobsdice.data.audit.coverage import groups, streamed_distances
from lobsdice.data.formats import read, write
from lobsdice.data.formats.mapped import write_parts
from lobsdice.data.logged import LoggedPairs
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.prepare import observations
from lobsdice.executors.job import Executor, Job
from lobsdice.executors.local import Local
from lobsdice.executors.ray import Ray, connected
from lobsdice.executors.train import job_of
from lobsdice.rewards.nearest import distances
from lobsdice.training.engine import Options
from lobsdice.training.recipe import Recipe

#: Chunks of steps that are timed. The fastest one counts.
REPEATS = 5


@dataclass(frozen=True)
class Fleets:
    """Fleets against workers, local and on Ray."""

    fleets: int = 4
    workers: tuple[int, ...] = (1, 2)
    steps: int = 2000
    wait: float | None = None

    def __call__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            first = None
            for workers in self.workers:
                for name, executor in self._executors(workers):
                    seconds = self._measure(Path(folder), f"{name}-{workers}", executor)
                    first = first or seconds
                    efficiency = first / (workers * seconds)
                    row = {"on": name, "workers": workers, "seconds": round(seconds, 1)}
                    print(json.dumps(row | {"efficiency": round(efficiency, 2)}), flush=True)

    def _executors(self, workers: int) -> Iterator[tuple[str, Executor]]:
        yield "local", Local(workers)
        begin = time.monotonic()
        with connected():
            print(json.dumps({"start of Ray": round(time.monotonic() - begin, 1)}), flush=True)
            yield "ray", Ray(at_a_time=workers)

    def _job(self, folder: Path) -> Job:
        if self.wait is not None:
            return Job(folder, ("-c", f"import time; time.sleep({self.wait})"))
        return make_job(folder, self.steps, seeds=1)

    def _measure(self, folder: Path, name: str, executor: Executor) -> float:
        jobs = [self._job(folder / f"{name}-{i}") for i in range(self.fleets)]
        begin = time.monotonic()
        ended = [event for event in executor.run(jobs) if event and event.what == "ended"]
        assert [event.status for event in ended] == [0] * self.fleets
        return time.monotonic() - begin


@dataclass(frozen=True)
class Devices:
    """One fleet over several devices."""

    runs: int = 8
    devices: tuple[int, ...] = (1, 2)
    steps: int = 400

    def __call__(self) -> None:
        for count in self.devices:
            flags = f"--xla_force_host_platform_device_count={count}"
            environment = {**os.environ, "XLA_FLAGS": flags}
            command = [sys.executable, __file__, "chunk", "--runs", str(self.runs)]
            subprocess.run([*command, "--steps", str(self.steps)], env=environment, check=True)


@dataclass(frozen=True)
class Chunk:
    """The program of `devices`: a fleet over all devices that JAX sees."""

    runs: int
    steps: int

    def __call__(self) -> None:
        import jax

        from lobsdice import prepare
        from lobsdice.training.fleet import iterate, make_fleet

        options = Options(steps=(1 + REPEATS) * self.steps)
        fleet = make_fleet(LobsDICE(), prepare(*recordings()), self.runs, options)
        steps = iterate(fleet, every=self.steps)
        next(steps)  # compiles
        times = []
        for _ in range(REPEATS):
            begin = time.monotonic(), time.process_time()
            next(steps)
            times.append((time.monotonic() - begin[0], time.process_time() - begin[1]))
        clock, processor = (
            round(1000 * min(each) / self.steps, 2) for each in zip(*times, strict=True)
        )
        row = {"devices": jax.local_device_count(), "kind": jax.devices()[0].device_kind}
        row |= {"runs": self.runs, "ms_a_step": clock, "processor_ms_a_step": processor}
        print(json.dumps(row), flush=True)


@dataclass(frozen=True)
class Rows:
    """Logs of more and more steps, which pass the demonstrations by."""

    rows: tuple[int, ...] = (1_000_000, 10_000_000)
    folder: Path = Path()

    def __call__(self) -> None:
        for count in self.rows:
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                path = Path(folder) / "logs.columns"
                write_parts(path, (noise(200, 1000, i) for i in range(count // 200_000)))
                for what in ("coverage", "rewards"):
                    command = [sys.executable, __file__, "pass", "--path", str(path)]
                    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
                    subprocess.run([*command, "--what", what], env=environment, check=True)


@dataclass(frozen=True)
class Pass:
    """The program of `rows`: one pass of all logs, or two for the coverage."""

    path: Path
    what: Literal["coverage", "rewards"]

    def __call__(self) -> None:
        logs, expert = read(self.path), noise(5, 1000, 10**6)
        logged = LoggedPairs(logs, fit_normaliser(logs))
        shown = observations(expert, normaliser=logged.normaliser).pairs
        begin, used = time.monotonic(), time.process_time()
        if self.what == "coverage":
            streamed_distances(shown, groups(expert), logged)
        else:
            for block in logged.blocks():
                distances(block, shown)
        row = {
            "what": self.what,
            "rows": len(logged),
            "seconds": round(time.monotonic() - begin, 1),
            "processor": round(time.process_time() - used, 1),
            "memory_MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
            "anonymous_MB": anonymous(),
        }
        print(json.dumps(row), flush=True)


def anonymous() -> int:
    """The memory of this process now, in MB, without pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) // 1000


def noise(count: int, length: int, seed: int) -> Episodes:
    """Episodes of noise."""
    random = np.random.default_rng(seed)
    return Episodes.from_arrays(
        random.standard_normal((count * (length + 1), 11), np.float32),
        lengths=np.full(count, length),
        actions=2 * random.random((count * length, 3), np.float32) - 1,
    )


def recordings() -> tuple[Episodes, Episodes]:
    """Demonstrations and logs of noise."""
    return noise(5, 100, 0), noise(200, 100, 1)


def make_job(folder: Path, steps: int, *, seeds: int) -> Job:
    """A fleet of LobsDICE as a job."""
    files = [folder.parent / name for name in ("demos.npz", "logs.npz")]
    if not files[0].exists():
        for path, episodes in zip(files, recordings(), strict=True):
            write(path, episodes)
    recipe = Recipe(
        out=folder,
        expert=(str(files[0]),),
        offline=(str(files[1]),),
        seeds=seeds,
        training=Options(steps=steps),
        algorithm=LobsDICE(),
    )
    return job_of(recipe, recipe.about(sys.argv))


if __name__ == "__main__":
    commands = {"fleets": Fleets, "devices": Devices, "chunk": Chunk, "rows": Rows, "pass": Pass}
    tyro.extras.subcommand_cli_from_dict(commands)()
