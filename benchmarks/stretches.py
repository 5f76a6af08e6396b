"""Measure what averages of log weights over recorded steps are worth in fresh worlds.

python benchmarks/stretches.py --out results/stretches/fresh.csv

LobsDICE learns in each of the worlds of fresh_worlds.py, with log weights averaged over one step
(not at all) and over more. The same seeds have the same data and first weights. A later call
continues an interrupted one.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import tyro
from fresh_worlds import FRESH, episodes_of, recordings_of
from selection import scores

from lobsdice import LobsDICE, train
from lobsdice.data.episodes import Episodes
from lobsdice.data.files import write_csv
from lobsdice.data.prepare import prepare

#: Episodes whose mean return stands for the demonstrator.
SHOWN = 40


@dataclass(frozen=True)
class Stretches:
    out: Path
    """The CSV file to write, or to go on with."""
    worlds: tuple[str, ...] = tuple(FRESH)
    stretches: tuple[int, ...] = (1, 64)
    seeds: int = 3
    steps: int = 5_000
    width: int = 64
    batch_size: int = 128

    def run(self) -> None:
        rows: list[dict[str, Any]] = []
        if self.out.exists():
            rows += csv.DictReader(self.out.open())
        known = {(row["world"], int(row["stretch"])) for row in rows}
        for world in self.worlds:
            left = [n for n in self.stretches if (world, n) not in known]
            if not left:
                continue
            expert, logs = recordings_of(world)
            bad, good = bounds(world)
            for stretch in left:
                for seed, found in enumerate(self.returns(world, stretch, expert, logs)):
                    facts = {"world": world, "stretch": stretch, "seed": seed, "return": found}
                    rows.append(facts | {"score": 100 * (found - bad) / (good - bad)})
                write_csv(self.out, rows)

    def returns(self, world: str, stretch: int, expert: Episodes, logs: Episodes) -> list[float]:
        """The mean return of the last policy of each seed."""
        # At a wall of the valley, episodes share a pair of states by chance.
        data = prepare(expert, logs, allow_leak=world == "valley")
        learner: Any = LobsDICE(width=self.width, stretch=stretch)
        options: dict[str, Any] = {
            "steps": self.steps,
            "every": self.steps,
            "batch_size": self.batch_size,
        }
        run = train(learner, data, seeds=self.seeds, **options)
        return [row["return"] for row in scores(world, run.policies)]


def bounds(world: str) -> tuple[float, float]:
    """The mean returns of the bad controllers, and of the demonstrator."""
    found = [episodes_of(world, source, SHOWN).returns() for source in FRESH[world].controllers()]
    good, *bad = cast(list[np.ndarray], found)
    return float(np.mean(bad)), float(np.mean(good))


if __name__ == "__main__":
    tyro.cli(Stretches).run()
