"""Milliseconds a gradient step of an algorithm, for one run and for a fleet, on this machine.

python benchmarks/engine_speed.py [--algorithm lobsdice] [--runs 1 60] [--penalty-every 8 1]
                                  [--steps 800]

Sizes are Hopper's (11 numbers a state, 3 an action), batch 512, networks of 256 x 256. Algorithms
without penalties ignore how often they count.
"""

import time
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
import tyro

from lobsdice import Episodes, Options, prepare
from lobsdice.algorithms import ALGORITHMS
from lobsdice.engine import Member
from lobsdice.train import Fleet, iterate


@dataclass(frozen=True)
class Benchmark:
    algorithm: str = "lobsdice"
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
        print(f"{self.algorithm}; device: {jax.devices()[0].device_kind}, jax {jax.__version__}")
        for runs in self.runs:
            for every in self.penalty_every:
                best, first = self.measure(data, runs, every)
                print(
                    f"{runs:3d} run(s), penalties every {every} step(s): {best:.4f} ms a step, "
                    f"{best / runs:.4f} ms a run and step; first chunk, compiled, {first:.1f} s"
                )

    def measure(self, data, runs: int, every: int) -> tuple[float, float]:
        """The best of several chunks, in milliseconds a step, and the seconds of the first one."""
        options = Options(steps=self.steps * (self.rounds + 1))
        kind: Any = ALGORITHMS[self.algorithm]
        penalised = "penalty_every" in {field.name for field in fields(kind)}
        algorithm = kind(penalty_every=every) if penalised else kind()
        fleet = Fleet(tuple(Member(algorithm, seed, 0, options) for seed in range(runs)), (data,))
        seconds, last = [], time.perf_counter()
        for _ in iterate(fleet, every=self.steps):
            seconds.append(time.perf_counter() - last)
            last = time.perf_counter()
        return 1e3 * min(seconds[1:]) / self.steps, seconds[0]


if __name__ == "__main__":
    tyro.cli(Benchmark).run()
