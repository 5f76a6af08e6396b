"""What limits a policy of LobsDICE: the rows that it clones, or how few they are.

python benchmarks/causes.py --task walker2d --mixture 100 1000 1000 --out runs/causes.csv

It trains LobsDICE with its defaults, keeps the weights that it ends with, and clones the logs with
five versions of them. Two of them know which rows are the expert's, which no user knows. So they
tell apart what wrong rows cost from what few rows cost. Only the policy learns in the second part.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from lobsdice import LobsDICE, NearestTrajectory, load, train
from lobsdice.data.files import atomic
from lobsdice.data.prepare import prepare
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.environments.tasks.task import Task
from lobsdice.equations.duals import sharpened
from lobsdice.training.diagnostics import row_weights
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.train import Run

#: Log weights this far below the largest count as zero.
NONE = 30.0


@dataclass(frozen=True)
class Causes:
    out: Path
    """The CSV file to write."""
    task: str = "walker2d"
    mixture: tuple[int, int, int] = (100, 500, 500)
    """Episodes of the expert, the medium policy and the random one in the logs."""
    seeds: int = 3
    steps: int = 30_000
    """Steps of LobsDICE, and then of each cloning."""
    episodes: int = 20
    """Episodes of each evaluation."""
    width: int = 128
    batch_size: int = 256

    def run(self) -> None:
        counts: dict[str, int] = dict(zip(SOURCES, self.mixture, strict=True))
        task = load(self.task, expert=5, offline=counts)
        rows = list(self.rows(task))
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with atomic(self.out) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def rows(self, task: Task) -> Iterator[dict]:
        score = partial(task.evaluate, episodes=self.episodes)
        options: dict[str, Any] = {"steps": self.steps, "every": self.steps // 3}
        options |= {"batch_size": self.batch_size, "evaluate": score}
        own = np.repeat(np.asarray(task.offline.source) == 0, task.offline.lengths)
        for seed in range(self.seeds):
            with TemporaryDirectory() as folder:
                learner = LobsDICE(width=self.width)
                options["seeds"] = [seed]
                trained = train(learner, task.data, out=folder, **options)
                log_w = final_log_weights(Path(folder), trained.fleet)
            known = versions(log_w, own, learner)
            runs = {name: self.clone(task, version, options) for name, version in known.items()}
            known["lobsdice"], runs["lobsdice"] = known["sharpened"], trained
            for name, run in runs.items():
                about = {"task": self.task, "mixture": "-".join(map(str, self.mixture))}
                about |= {"weights": name, "seed": seed, **described(known[name], own)}
                for row in run.rows:
                    print({k: v for k, v in (about | row).items() if k in KEYS}, flush=True)
                    yield about | {"step": row["step"], "score": row["score"]}

    def clone(self, task: Task, log_w: np.ndarray, options: dict[str, Any]) -> Run:
        """Clone the logs with known weights: recorded rewards that no later step adds to."""
        rewards = np.maximum(log_w - log_w.max(), -NONE).astype(np.float32)
        data = prepare(task.expert, replace(task.offline, rewards=rewards))
        temperature = 1 / max(float(np.ptp(rewards)), 1e-6)
        learner = NearestTrajectory(
            reward="recorded", gamma=0.0, temperature=temperature, width=self.width
        )
        return train(learner, data, **options)


KEYS = ("weights", "seed", "step", "score", "mass_expert", "share")


def final_log_weights(folder: Path, fleet: Fleet) -> np.ndarray:
    """log w of each logged step, with the networks of the last checkpoint of the only run."""
    checkpoint = RunFolder(folder).read_checkpoint(jax.eval_shape(fleet.begin))
    assert checkpoint is not None
    nets = jax.tree.map(lambda x: x[0], checkpoint.state.nets)
    shares = row_weights(fleet.members[0].algorithm, nets, fleet.datas[0])
    return np.log(np.maximum(shares, 1e-30))


def sharpened_of(log_w: np.ndarray, learner: LobsDICE) -> np.ndarray:
    """The log weights of cloning."""
    x = jnp.asarray(log_w, jnp.float32)
    return np.asarray(sharpened(x, most=learner.sharpness, least_share=learner.least_share))


def versions(log_w: np.ndarray, own: np.ndarray, learner: LobsDICE) -> dict[str, np.ndarray]:
    """The five versions of log weights; `own` is True for the expert's rows."""
    sharp = sharpened_of(log_w, learner)
    return {
        "sharpened": sharp,
        "not sharpened": log_w,
        "sharpened, expert's rows": np.where(own, sharp, -np.inf),
        "not sharpened, expert's rows": np.where(own, log_w, -np.inf),
        "equal, expert's rows": np.where(own, 0.0, -np.inf),
    }


def described(log_w: np.ndarray, own: np.ndarray) -> dict[str, float]:
    """The share of the weight on the expert's rows, and the effective share of all rows."""
    w = np.exp(log_w - log_w.max())
    return {
        "mass_expert": round(float(w[own].sum() / w.sum()), 4),
        "share": round(float(w.mean() ** 2 / np.mean(w**2)), 4),
    }


if __name__ == "__main__":
    tyro.cli(Causes).run()
