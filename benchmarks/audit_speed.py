"""Time and memory of the audit of a large recording.

    python benchmarks/audit_speed.py           # 1 million offline and 10,000 expert transitions
    python benchmarks/audit_speed.py --offline 100000

Each matrix product runs on one thread, as in the command, because the audit has its own threads.
"""

import argparse
import os
import resource
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from lobsdice import audit
from lobsdice.data.episodes import Episodes

LENGTH = 1000


def walks(steps: int, width: int, seed: int) -> Episodes:
    """Episodes of LENGTH steps: random walks around the origin."""
    random = np.random.default_rng(seed)
    count = steps // LENGTH
    rows = random.standard_normal((count, LENGTH + 1, width), np.float32)
    for i in range(1, LENGTH + 1):
        rows[:, i] = 0.95 * rows[:, i - 1] + 0.31 * rows[:, i]
    actions = random.uniform(-1, 1, (count * LENGTH, 6))
    return Episodes.from_arrays(rows.reshape(-1, width), lengths=[LENGTH] * count, actions=actions)


def peak() -> float:
    """The peak resident memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offline", type=int, default=1_000_000)
    parser.add_argument("--expert", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=20)
    options = parser.parse_args()
    expert = walks(options.expert, options.width, 0).without_actions()
    offline = walks(options.offline, options.width, 1)
    before, start, worked = peak(), time.perf_counter(), time.process_time()
    found = audit(expert, offline)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    print(f"{options.expert:,} x {options.offline:,} transitions of width {options.width}")
    print(f"{found.verdict}: {found.uncovered_share:.1%} uncovered")
    print(f"{seconds:.1f} s, {worked:.1f} s of processor time on {os.cpu_count()} cores")
    print(f"peak memory {peak():.2f} GB, {before:.2f} GB before")


if __name__ == "__main__":
    main()
