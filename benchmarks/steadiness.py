"""What steadies the last policy: averaged weights, a falling learning rate, or neither.

python benchmarks/steadiness.py --task walker2d --steps 200000 --out runs/steadiness-walker2d

All variants and seeds train in one program. Writes the folder of a fleet (its metrics.csv has one
row for each evaluation of each run) and prints, for each variant, the score of the last policies
and the mean and the worst score over the second half of training.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from lobsdice import LobsDICE, Options, load
from lobsdice.engine import Member
from lobsdice.tasks import SOURCES
from lobsdice.train import Fleet, train_fleet

#: Decay of the average, and part of the steps in which the learning rates fall to zero.
VARIANTS = {
    "plain": (0.0, 0.0),
    "average 0.999": (0.999, 0.0),
    "average 0.9999": (0.9999, 0.0),
    "cooldown 0.5": (0.0, 0.5),
    "average 0.999, cooldown 0.5": (0.999, 0.5),
}


@dataclass(frozen=True)
class Study:
    out: Path
    task: str = "walker2d"
    steps: int = 200_000
    seeds: int = 5
    mixture: tuple[int, int, int] = (100, 500, 500)

    def run(self) -> None:
        counts: dict[str, int] = dict(zip(SOURCES, self.mixture, strict=True))
        task = load(self.task, expert=5, offline=counts)
        members = tuple(
            Member(
                LobsDICE(), seed, 0, Options(steps=self.steps, average=average, cooldown=cooldown)
            )
            for average, cooldown in VARIANTS.values()
            for seed in range(self.seeds)
        )
        resume = (self.out / "config.json").exists()
        fleet = Fleet(members, (task.data,))
        run = train_fleet(
            fleet, evaluate=task.evaluate, every=self.steps // 25, out=self.out, resume=resume
        )
        for i, name in enumerate(VARIANTS):
            self.report(name, [row for row in run.rows if row["run"] // self.seeds == i])

    def report(self, name: str, rows: list) -> None:
        last = [row["score"] for row in rows if row["step"] == self.steps]
        late = [row["score"] for row in rows if row["step"] > self.steps / 2]
        print(
            f"{name:28s} last {np.mean(last):6.1f} ± {np.std(last):5.1f}   "
            f"second half: mean {np.mean(late):6.1f}, worst {np.min(late):6.1f}"
        )


if __name__ == "__main__":
    tyro.cli(Study).run()
