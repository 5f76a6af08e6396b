"""Speed of collecting a task's data on one core and on all cores, and their ratio.

    python benchmarks/collect.py hopper --episodes 40

The target is 0.85. For comparison, one independent process per core collects on its own. That ratio
is below 1 if cores share an arithmetic unit or other programs run.
"""

import argparse
import os
import subprocess
import sys
import time

from lobsdice.data.machine import cores
from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.table import SOURCES, TASKS


def main() -> None:
    options = _options()
    if options.alone:
        print(speed(options.task, options.episodes, workers=1))
        return
    count, load = cores(), os.getloadavg()[0]
    one = speed(options.task, options.episodes, workers=1)
    unrelated = sum(_unrelated(options, count))
    every = speed(options.task, options.episodes * count, workers=count)
    print(f"{options.task}, {count} cores, load before the start {load:.2f}")
    print(f"  one core             {one:8.0f} steps/s")
    print(
        f"  all cores            {every:8.0f} steps/s   {every / (count * one):.2f} of cores x one"
    )
    print(f"  unrelated processes  {unrelated:8.0f} steps/s   {unrelated / (count * one):.2f}")


def speed(task: str, episodes: int, *, workers: int) -> float:
    """Steps per second, with start-up, for this many episodes of each source."""
    start = time.perf_counter()
    collected = collect(task, {source: episodes for source in SOURCES}, workers=workers)
    steps = sum(part.steps for part in collected.values())
    return steps / (time.perf_counter() - start)


def _unrelated(options: argparse.Namespace, count: int) -> list[float]:
    command = [sys.executable, __file__, options.task, "--alone", "--episodes"]
    processes = [
        subprocess.Popen([*command, str(options.episodes)], stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    return [float(process.communicate()[0]) for process in processes]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of collecting a task's data.")
    parser.add_argument("task", nargs="?", default="hopper", choices=TASKS)
    parser.add_argument("--episodes", type=int, default=40, help="of each source, for each core")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
