"""Training from logs that are larger than memory: the time of a step, and the memory.

P=benchmarks/larger_than_memory.py
python $P make big.columns --rows 360000000       # writes 20 GB
python $P train big.columns --pool 2000000        # about so many steps in memory
python $P train small.columns                     # all in memory

States are Hopper's in size (11 numbers, actions of 3), batch 512, LobsDICE. The first chunk, which
is compiled, does not count. To limit the memory, run it in a cgroup, such as `systemd-run --scope
-p MemoryMax=4G python $P train …`: pages of the mapped files count there, too.
"""

import resource
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from tyro.conf import Positional, subcommand

from lobsdice import Episodes, Options
from lobsdice.data.formats import read
from lobsdice.data.formats.mapped import write_parts
from lobsdice.data.prepare import prepare

STATE, ACTION, LENGTH = 11, 3, 1000


def episodes(count: int, seed: int) -> Episodes:
    """Noise in episodes of a thousand steps."""
    random = np.random.default_rng(seed)
    return Episodes.from_arrays(
        random.standard_normal((count * (LENGTH + 1), STATE), np.float32),
        lengths=np.full(count, LENGTH),
        actions=2 * random.random((count * LENGTH, ACTION), np.float32) - 1,
    )


@dataclass(frozen=True)
class Make:
    """Write logs of noise."""

    path: Positional[Path]
    rows: int = 1_000_000

    def __call__(self) -> None:
        started, parts = time.perf_counter(), max(1, self.rows // (200 * LENGTH))
        write_parts(self.path, (episodes(200, seed) for seed in range(parts)))
        size = sum(file.stat().st_size for file in self.path.iterdir())
        seconds = time.perf_counter() - started
        print(f"{parts * 200 * LENGTH:,} rows, {size / 1e9:.2f} GB in {seconds:.0f} s")


@dataclass(frozen=True)
class Train:
    """Train on logs, and print the speed and the memory."""

    path: Positional[Path]
    pool: int | None = None
    steps: int = 500
    chunks: int = 6

    def __call__(self) -> None:
        from lobsdice.algorithms import LobsDICE
        from lobsdice.training import stream
        from lobsdice.training.fleet import iterate, make_fleet

        stream.EVERY = self.steps
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        data = prepare(episodes(5, 10**6), read(self.path), pool=self.pool, allow_leak=True)
        prepared = time.perf_counter() - started
        options = Options(steps=self.steps * (self.chunks + 1))
        progress, times = iterate(make_fleet(LobsDICE(), data, 1, options), every=self.steps), []
        for _ in range(self.chunks + 1):
            started, used = time.perf_counter(), time.process_time()
            next(progress)
            spent = time.perf_counter() - started, time.process_time() - used
            times.append([1e3 * seconds / self.steps for seconds in spent])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        (best, used), (middle, _) = np.min(times[1:], axis=0), np.median(times[1:], axis=0)
        print(
            f"pool {self.pool}: {best:.3f} ms a step at best, {middle:.3f} in the middle, "
            f"{used:.3f} of the processor at best; prepared in {prepared:.1f} s; "
            f"largest resident memory {peak:.2f} GB, pages of files included"
        )


if __name__ == "__main__":
    tyro.cli(
        Annotated[Make, subcommand("make")] | Annotated[Train, subcommand("train")]  # pyright: ignore[reportArgumentType]
    )()
