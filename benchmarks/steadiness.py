"""Ways to a steadier last policy: averaged weights, a learning rate that falls, sharper weights.

python benchmarks/steadiness.py --task walker2d --steps 200000 --out runs/steadiness-walker2d
python benchmarks/steadiness.py --study hyperparameters --task ant --out runs/steadiness-ant
python benchmarks/steadiness.py --study sharpness --mixture 100 1000 1000 --out runs/weights

All variants and seeds train in one program. It writes a run folder, whose metrics.csv has one row
for each evaluation of each run. For each variant it prints the score of the last policies, and for
the second half of training the mean and the worst score and the distribution of the weights.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from lobsdice import LobsDICE, Options, load
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.experiments.plots.learning import standard_error
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.train import train_fleet

#: Columns about the weights, measured on held-out rows.
WEIGHTS = ("mass_expert", "mass_medium", "effective_share")
#: Differences from the defaults of the algorithm and of training.
STUDIES = {
    "averaging": {
        "plain": ({}, {"average": 0.0}),
        "average 0.999": ({}, {}),
        "average 0.9999": ({}, {"average": 0.9999}),
        "cooldown 0.5": ({}, {"average": 0.0, "cooldown": 0.5}),
        "average 0.999, cooldown 0.5": ({}, {"cooldown": 0.5}),
    },
    "hyperparameters": {
        "default": ({}, {}),
        "cooldown 1": ({}, {"cooldown": 1.0}),
        "policy rate 1e-4": ({"policy_rate": 1e-4}, {}),
        "alpha 1": ({"alpha": 1.0}, {}),
        "alpha 0.01": ({"alpha": 0.01}, {}),
        "gamma 0.999": ({"gamma": 0.999}, {}),
        "ratio penalty 1": ({"ratio_penalty": 1.0}, {}),
        "ratio penalty 10": ({"ratio_penalty": 10.0}, {}),
    },
    "cooldown": {
        "default": ({}, {}),
        "cooldown 1": ({}, {"cooldown": 1.0}),
    },
    # Variants that may separate the expert's transitions from others more sharply.
    "sharpness": {
        "default": ({}, {}),
        "ratio penalty 0.03": ({"ratio_penalty": 0.03}, {}),
        "ratio penalty 0.01": ({"ratio_penalty": 0.01}, {}),
        "ratio penalty 0.001": ({"ratio_penalty": 0.001}, {}),
        "ratio floor 1e-5": ({"ratio_floor": 1e-5}, {}),
        "alpha 0.01": ({"alpha": 0.01}, {}),
        "gamma 0.999": ({"gamma": 0.999}, {}),
        "nu penalty 1e-3": ({"nu_penalty": 1e-3}, {}),
        "nu penalty 1e-5": ({"nu_penalty": 1e-5}, {}),
        "ratio penalty 0.01, gamma 0.999": ({"ratio_penalty": 0.01, "gamma": 0.999}, {}),
    },
}


@dataclass(frozen=True)
class Study:
    out: Path
    study: Literal["averaging", "hyperparameters", "cooldown", "sharpness"] = "averaging"
    task: str = "walker2d"
    steps: int = 200_000
    seeds: int = 5
    mixture: tuple[int, int, int] = (100, 500, 500)
    evaluations: int = 25

    def run(self) -> None:
        counts: dict[str, int] = dict(zip(SOURCES, self.mixture, strict=True))
        task = load(self.task, expert=5, offline=counts)
        members = tuple(
            Member(LobsDICE(**algorithm), seed, 0, Options(steps=self.steps, **training))
            for algorithm, training in STUDIES[self.study].values()
            for seed in range(self.seeds)
        )
        resume = (self.out / "config.json").exists()
        fleet = Fleet(members, (task.data,))
        every = -(-self.steps // self.evaluations)
        run = train_fleet(fleet, evaluate=task.evaluate, every=every, out=self.out, resume=resume)
        for i, name in enumerate(STUDIES[self.study]):
            self.report(name, [row for row in run.rows if row["run"] // self.seeds == i])

    def report(self, name: str, rows: list) -> None:
        last = [row["score"] for row in rows if row["step"] == self.steps]
        late = [row for row in rows if row["step"] > self.steps / 2]
        scores = np.array([[r["score"] for r in late if r["seed"] == s] for s in range(self.seeds)])
        means = {key: np.mean([row[key] for row in late]) for key in WEIGHTS if key in late[0]}
        print(
            f"{name:32s} last {np.mean(last):5.1f} ± {np.std(last):4.1f}   second half: "
            f"mean {scores.mean():5.1f} ± {standard_error(scores.mean(axis=1)):4.1f} (s.e.), "
            f"worst {scores.min():5.1f}; "
            + ", ".join(f"{key} {value:.4f}" for key, value in means.items())
        )


if __name__ == "__main__":
    tyro.cli(Study).run()
