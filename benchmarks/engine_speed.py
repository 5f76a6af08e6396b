"""Milliseconds per gradient step of algorithms, for one run and for a fleet, on this machine.

python benchmarks/engine_speed.py [--algorithms lobsdice smodice] [--runs 1 60]
                                  [--penalty-every 8 1] [--steps 800]

Sizes are Hopper's (11 numbers per state, 3 per action), batch 512, networks of 256 x 256.
Algorithms without penalties ignore --penalty-every. Settings may follow a name, as in
lobsdice:redraw=false. The algorithms take turns, chunk by chunk, so that other load of the machine
slows all of them down equally. The time of processors that a step used depends less on it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import jax
import numpy as np
import tyro

from lobsdice import Episodes, Options, prepare
from lobsdice.experiments.arms import settings_of, split
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet, iterate


@dataclass(frozen=True)
class Benchmark:
    algorithms: tuple[str, ...] = ("lobsdice",)
    runs: tuple[int, ...] = (1, 60)
    penalty_every: tuple[int, ...] = (8, 1)
    steps: int = 800
    rounds: int = 5
    state_size: int = 11
    action_size: int = 3

    def data(self):
        rng = np.random.default_rng(0)

        def episodes(count):
            return Episodes.from_arrays(
                rng.normal(size=(count * 101, self.state_size)),
                lengths=[100] * count,
                actions=rng.uniform(-1, 1, (count * 100, self.action_size)),
            )

        expert = episodes(50)
        return prepare(expert, episodes(3000), labelled=expert)

    def run(self) -> None:
        data = self.data()
        print(f"device: {jax.devices()[0].device_kind}, jax {jax.__version__}")
        for runs, every in product(self.runs, self.penalty_every):
            print(f"{runs} run(s), penalties every {every} step(s)")
            for name, times in self.measure(data, runs, every).items():
                others, used = (1e3 * np.array(times[1:]) / self.steps).T
                print(
                    f"  {name:24s} {others.min():.4f} ms a step at best, {np.median(others):.4f} "
                    f"in the middle; {others.min() / runs:.4f} ms a run and step at best; "
                    f"{np.median(used):.4f} ms of processor time a step in the middle; "
                    f"first chunk, compiled, {times[0][0]:.1f} s"
                )

    def measure(self, data, runs: int, every: int) -> dict[str, list[tuple[float, float]]]:
        """The times of each chunk of each algorithm. The first chunk includes compilation."""
        chunks = {name: self.chunks(name, data, runs, every) for name in self.algorithms}
        rounds = list(zip(*chunks.values(), strict=True))
        return {name: [times[i] for times in rounds] for i, name in enumerate(chunks)}

    def chunks(self, name: str, data, runs: int, every: int) -> Iterator[tuple[float, float]]:
        """Yield the seconds of each chunk, and those of processors."""
        options = Options(steps=self.steps * (self.rounds + 1))
        algorithm = settings_of(*split(name)).make({"penalty_every": every})
        fleet = Fleet(tuple(Member(algorithm, seed, 0, options) for seed in range(runs)), (data,))
        progress = iterate(fleet, every=self.steps)
        for _ in range(self.rounds + 1):
            before, used = time.perf_counter(), time.process_time()
            next(progress)
            yield time.perf_counter() - before, time.process_time() - used


if __name__ == "__main__":
    tyro.cli(Benchmark).run()
