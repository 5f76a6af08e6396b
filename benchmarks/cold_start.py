"""The time that `lobsdice train` takes to its first step, on a tiny file.

    python benchmarks/cold_start.py

prints the seconds, and the processor's seconds, until the first steps are done: without programs
from an earlier training, and with them. The second number does not depend on what else runs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import lobsdice as ld

RUN = """
import os, time
start = time.time()

def reached(*_, **__):
    spent = os.times()
    processor = spent.user + spent.system
    print(f"{time.time() - start:.1f} s, {processor:.1f} s of the processor", flush=True)
    os._exit(0)

from lobsdice.training import train
train.Pace.__call__ = reached
from lobsdice.cli.main import main
main("train lobsdice --expert demos.csv --offline logs.csv --out run --steps 1000".split())
"""


def episodes(count: int, seed: int) -> ld.Episodes:
    random = np.random.default_rng(seed)
    return ld.Episodes.from_arrays(
        random.normal(size=(count * 11, 4)),
        lengths=[10] * count,
        actions=random.uniform(-1, 1, (count * 10, 2)),
        terminated=random.random(count) < 0.5,
    )


def first_step(folder: Path) -> str:
    shutil.rmtree(folder / "run", ignore_errors=True)
    variables = os.environ | {"LOBSDICE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", RUN]
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    return result.stdout.strip() or result.stderr


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        ld.write(here / "demos.csv", episodes(5, 1).without_actions())
        ld.write(here / "logs.csv", episodes(30, 0))
        for what in ("first training", "second training", "third training"):
            print(f"{what}: {first_step(here)}")
