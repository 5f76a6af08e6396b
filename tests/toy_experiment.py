"""A continuous-control experiment that takes seconds."""

import csv
from pathlib import Path

from lobsdice.experiments.control.grid import Grid, Plan

PLAN = Plan(steps=8, every=8, batch_size=16, episodes=1)
TOY = Grid(env=("hopper",), algorithms=("lobsdice", "bc"), seeds=2, sizes=(1, 2), expert=1)


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
