"""Time and memory of sparse tabular LobsDICE on stochastic grid worlds of 1,000 to 100,000 states.

Each grid has ten observed transitions per state. `python benchmarks/tabular_scaling.py` prints a
table and writes `results/tabular_scaling/` (scaling.csv, summary.json, scaling.png). Every size
runs in a process of its own, so that its peak memory can be measured.
"""

import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from lobsdice import tabular
from lobsdice.data.files import atomic, write_csv

SIDES = (32, 56, 100, 178, 317)
ALPHA, MIX, GAMMA, SLIP = 0.1, 1e-3, 0.95, 0.2
MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0))


def grid(side, seed=0):
    """The estimated MDP of a slippery grid, d^E of an expert who goes to the centre, and d^I."""
    rng = np.random.default_rng(seed)
    size, samples = side * side, 10 * side * side
    y, x = np.divmod(np.arange(size), side)
    clipped = [
        np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1) for dy, dx in MOVES
    ]
    to, middle = np.stack(clipped, axis=1), side // 2
    vertical, horizontal = np.where(y < middle, 2, 3), np.where(x < middle, 0, 1)
    towards = np.where(abs(y - middle) > abs(x - middle), vertical, horizontal)

    def move(s, a):
        slipped = rng.random(s.size) < SLIP
        return to[s, np.where(slipped, rng.integers(4, size=s.size), a)]

    s, a = rng.integers(size, size=samples), rng.integers(4, size=samples)
    counts = sp.csr_matrix((np.ones(samples), (4 * s + a, move(s, a))), shape=(4 * size, size))
    d_offline = np.bincount(4 * s + a, minlength=4 * size).reshape(size, 4) / samples
    pairs, s = [], rng.integers(size, size=samples // 20)
    for _ in range(20):
        s_next = move(s, towards[s])
        pairs.append((s, s_next))
        restart = rng.random(s.size) < 1 - GAMMA
        s = np.where(restart, rng.integers(size, size=s.size), s_next)
    s, s_next = (np.concatenate(part) for part in zip(*pairs, strict=True))
    d_expert = sp.csr_matrix((np.full(s.size, 1 / s.size), (s, s_next)), shape=(size, size))
    return tabular.from_counts(counts, np.ones(size), GAMMA), d_expert, d_offline


def measure(side, results):
    problem = grid(side)
    tabular.lobsdice(*problem, alpha=ALPHA, mix=MIX)  # compiles for this shape
    start, busy = time.perf_counter(), time.process_time()
    solution = tabular.lobsdice(*problem, alpha=ALPHA, mix=MIX)
    taken, busy = time.perf_counter() - start, time.process_time() - busy
    results.put(
        {
            "states": side * side,
            "transitions": 10 * side * side,
            "steps": int(solution.steps),
            "seconds": round(taken, 3),
            "seconds_a_step": round(taken / int(solution.steps), 4),
            "cpu_seconds_a_step": round(busy / int(solution.steps), 4),
            "relative_gap": float(solution.gap / max(1, abs(solution.primal))),
            "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3),
        }
    )


def run(side):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=measure, args=(side, results))
    process.start()
    row = results.get()
    process.join()
    return row


def exponent(rows, column):
    """The slope of the least-squares line through log(column) over log(states)."""
    states = np.log([row["states"] for row in rows])
    return float(np.polyfit(states, np.log([row[column] for row in rows]), 1)[0])


def plot(rows, slope, path):
    states = np.array([row["states"] for row in rows], dtype=float)
    taken = np.array([row["cpu_seconds_a_step"] for row in rows])
    figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
    axes.loglog(states, taken, "o-", label=f"a Newton step: |S|^{slope:.2f}")
    bound = taken[0] * (states / states[0]) ** 1.5
    axes.loglog(states, bound, "--", color="grey", label="|S|^1.5")
    axes.set(xlabel="states |S|", ylabel="CPU seconds a Newton step")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, dpi=150)


def main(folder="results/tabular_scaling"):
    rows = []
    for side in SIDES:
        rows.append(run(side))
        print(rows[-1], flush=True)
    slope = exponent(rows, "cpu_seconds_a_step")
    folder = Path(folder)
    write_csv(folder / "scaling.csv", rows, line_end="\r\n")
    with atomic(folder / "summary.json") as path:
        command = "python benchmarks/tabular_scaling.py"
        summary = {"command": command, "alpha": ALPHA, "gamma": GAMMA, "exponent": round(slope, 3)}
        path.write_text(json.dumps(summary, indent=2) + "\n")
    with atomic(folder / "scaling.png") as path:
        plot(rows, slope, path)
    print(f"CPU time a Newton step grows as |S|^{slope:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
