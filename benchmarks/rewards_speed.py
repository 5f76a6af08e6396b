"""Seconds to find the scores of logged steps: nearest demonstrated pairs, and optimal transport.

    OPENBLAS_NUM_THREADS=1 python benchmarks/rewards_speed.py [--rows 1000000] [--episodes 2000]

With that variable our own threads, one a core, search neighbours; `lobsdice train` sets it. Optimal
transport does not depend on it. The sizes are a million pairs of width 34 against 5,000
demonstrated ones, and 2,000 episodes of 1,000 steps (11 numbers per state) against five
demonstrations. Optimal transport depends on how alike episodes are. So they are of three kinds:
noisy copies of a demonstration, the same motion out of phase, and noise. The load of the machine is
printed, and the time of its processors that was used.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tyro

from lobsdice import Episodes, prepare
from lobsdice.data.machine import cores
from lobsdice.data.neighbours import threads
from lobsdice.rewards.nearest import distances
from lobsdice.rewards.transport import score_transport


@dataclass(frozen=True)
class Benchmark:
    rows: int = 1_000_000
    points: int = 5000
    width: int = 34
    episodes: int = 2000
    steps: int = 1000
    state_size: int = 11
    demonstrations: int = 5

    def run(self) -> None:
        print(f"{cores()} cores, {threads()} threads, load {os.getloadavg()[0]:.1f}")
        rng = np.random.default_rng(0)
        rows, points = (
            rng.normal(size=(n, self.width)).astype(np.float32) for n in (self.rows, self.points)
        )
        timed(f"nearest of {self.points:,} pairs, {self.rows:,} rows", distances, rows, points)
        data = self.data(rng)
        pairs = f"{self.episodes:,} episodes to {self.demonstrations} demonstrations"
        timed(f"transport of {pairs}", lambda: score_transport(data, raw=False))

    def data(self, rng: np.random.Generator):
        kinds = [(0.0, 0.1), (1.0, 0.3), (0.0, 30.0)]
        shown = [self.motion(rng, 0.1 * i, 0.1) for i in range(self.demonstrations)]
        logged = [self.motion(rng, *kinds[i % 3]) for i in range(self.episodes)]
        return prepare(self.recorded(shown), self.recorded(logged))

    def motion(self, rng: np.random.Generator, phase: float, noise: float) -> np.ndarray:
        time_, feature = np.arange(self.steps + 1) * 0.06, np.arange(self.state_size)
        waves = np.sin(np.outer(time_, 1 + 0.1 * feature) + feature + phase)
        return 0.3 + waves + noise * rng.normal(size=waves.shape)

    def recorded(self, episodes: list[np.ndarray]) -> Episodes:
        count = len(episodes)
        return Episodes.from_arrays(
            np.concatenate(episodes),
            lengths=[self.steps] * count,
            actions=np.zeros((count * self.steps, 1)),
        )


def timed(what: str, job: Callable, *arguments: object) -> None:
    wall, used = time.perf_counter(), time.process_time()
    job(*arguments)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    print(f"{what}: {wall:.1f} s, {used:.1f} s of processor time, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    tyro.cli(Benchmark).run()
