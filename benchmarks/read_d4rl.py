"""Memory and time to read a large D4RL file, in comparison with its bare arrays by h5py.

    python benchmarks/read_d4rl.py            # 5 million transitions of width 20: 1.1 GB of disk
    python benchmarks/read_d4rl.py --rows 500000

Every measurement is a new process. Memory is its peak resident size minus that after its imports.
Time is the best of several repeats, with the file in the page cache.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import h5py
import numpy as np

WIDTH, ACTIONS, LENGTH = 20, 6, 1000
STORAGE = {"contiguous": {}, "gzip": {"compression": "gzip"}}
MEMORY_RATIO, MEMORY_SPARE, TIME_RATIO = 1.3, 200e6, 2.0


def make(path: Path, rows: int, storage: str) -> None:
    """Write episodes of LENGTH steps. Every third one is terminated, the others are truncated."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((rows + 1, WIDTH), np.float32)
    ends = np.zeros(rows, bool)
    ends[np.arange(LENGTH - 1, rows, LENGTH)] = True
    following = states[1:].copy()
    following[ends] += 1  # the final state of an episode is not the next one's first
    terminals = ends & (np.arange(rows) // LENGTH % 3 == 0)
    with h5py.File(path, "w") as file:
        arrays = {
            "observations": states[:-1],
            "next_observations": following,
            "actions": rng.uniform(-1, 1, (rows, ACTIONS)).astype(np.float32),
            "rewards": rng.standard_normal(rows, np.float32),
            "terminals": terminals,
            "timeouts": ends & ~terminals,
        }
        for key, array in arrays.items():
            file.create_dataset(key, data=array, **STORAGE[storage])


def measure(path: Path, how: str) -> dict[str, float]:
    """Time and memory to read `path` once in this process."""
    from lobsdice.data.formats import read

    baseline = _peak()
    start = time.perf_counter()
    if how == "raw":
        with h5py.File(path) as file:
            arrays = [dataset[()] for dataset in file.values()]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            episodes = read(path)
        fields = (episodes.observations, episodes.actions, episodes.rewards)
        arrays = [*fields, episodes.lengths, episodes.terminated]
    seconds = time.perf_counter() - start
    size = sum(array.nbytes for array in arrays if array is not None)
    return {"seconds": seconds, "peak": _peak() - baseline, "size": size}


def report(name: str, path: Path, repeats: int) -> bool:
    """Print both ratios of one file, and return True if both are within their limits."""
    runs = []
    for _ in range(repeats):  # in turns, so that a busy machine slows both down equally
        runs.append({how: _apart("--measure", how, str(path)) for how in ("ours", "raw")})
    ours, raw = (min(run[how]["seconds"] for run in runs) for how in ("ours", "raw"))
    peak, size = (max(run["ours"][key] for run in runs) for key in ("peak", "size"))
    allowed = MEMORY_RATIO * size + MEMORY_SPARE
    print(
        f"{name:12} memory {peak / 1e6:.0f} MB for arrays of {size / 1e6:.0f} MB: "
        f"ratio {peak / size:.2f} (limit {allowed / size:.2f});  "
        f"time {ours:.2f} s, h5py alone {raw:.2f} s: "
        f"ratio {ours / raw:.2f} (limit {TIME_RATIO:.2f})",
        flush=True,
    )
    return peak <= allowed and ours <= TIME_RATIO * raw


def _apart(*arguments: str) -> dict[str, float]:
    """Run this file in a new process. A large parent process would count in its peak memory."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout or "{}")


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory and time of reading a large D4RL file.")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make(Path(arguments.make[0]), arguments.rows, arguments.make[1])
        return 0
    if arguments.measure:
        how, path = arguments.measure
        print(json.dumps(measure(Path(path), how)))
        return 0
    good = True
    for storage in STORAGE:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.hdf5"
            _apart("--make", str(path), storage, "--rows", str(arguments.rows))
            good &= report(storage, path, arguments.repeats)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
