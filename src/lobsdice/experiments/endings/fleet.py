"""One fleet: trials with the same switches, reading of ends and shapes, trained in one program.

`python -m lobsdice.experiments.endings.fleet FOLDER SETTINGS` is the program of a process that
`trials` starts.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lobsdice.algorithms import Algorithm
from lobsdice.data.files import atomic
from lobsdice.environments.evaluate import evaluate, summary
from lobsdice.environments.tasks.table import spec_of
from lobsdice.executors.program import end_with_parent
from lobsdice.experiments.control.fleet import (
    TRIALS,
    exit_if_busy,
    failures_written,
    train_trials,
)
from lobsdice.experiments.endings.settings import Arm, Settings, Trial
from lobsdice.experiments.endings.worlds import make_data, successes
from lobsdice.policies.policy import Policy
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet
from lobsdice.training.recorder import Evaluate


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """Write trials.json into a fleet's folder."""
    with atomic(path / TRIALS) as temporary:
        temporary.write_text(json.dumps([trial.to_plain() for trial in trials], indent=1) + "\n")


def read_trials(path: Path) -> list[Trial]:
    """The trials of a fleet's folder."""
    rows: list[Any] = json.loads((path / TRIALS).read_text())
    return [Trial(**row | {"arm": Arm.from_plain(row["arm"])}) for row in rows]


def train(path: Path, settings: Settings, *, workers: int | None = None) -> None:
    """Train the fleet of a folder to its end, or write failure.txt."""
    with failures_written(path):
        trials = read_trials(path)
        train_trials(
            path,
            fleet_of(trials, settings),
            every=settings.every,
            evaluate_at=partial(_evaluation, trials, settings.episodes, workers),
        )


def fleet_of(trials: Sequence[Trial], settings: Settings) -> Fleet:
    """The trials as members of a fleet. Arms with the same logs share a seed's data."""
    datasets = list(dict.fromkeys(_dataset(trial) for trial in trials))
    members = tuple(
        Member(algorithm, trial.seed, datasets.index(_dataset(trial)), options)
        for trial in trials
        for algorithm, options in [made(trial, settings)]
    )
    labels = members[0].algorithm.needs_labels
    return Fleet(
        members,
        tuple(
            make_data(world, seed, oracle=oracle, labels=labels, initial=initial)
            for world, seed, oracle, initial in datasets
        ),
    )


def made(trial: Trial, settings: Settings) -> tuple[Algorithm, Options]:
    """The algorithm and the options of a trial. Those of equal structure train in one program."""
    arm = trial.arm
    return settings.algorithm(arm.algorithm, arm.set), settings.options(arm)


def _dataset(trial: Trial) -> tuple[str, int, bool, Any]:
    return trial.world, trial.seed, trial.arm.successful, trial.arm.settings.initial


def _evaluation(trials: Sequence[Trial], episodes: int, workers: int | None, step: int) -> Evaluate:
    """The function that scores a fleet's policies, each in the world of its trial.

    Episodes start alike for all policies of a step, and otherwise from step to step.
    """
    where = [trial.world for trial in trials]
    options = {"episodes": episodes, "seed": step, "workers": workers}

    def score(policies: Sequence[Policy]) -> list[dict[str, float]]:
        likeliest, drawn = (
            evaluate(policies, where, stochastic=stochastic, **options)
            for stochastic in (False, True)
        )
        return [
            summary(found, spec_of(world).normalised)
            | {"success": float(successes(world, found).mean())}
            | {"drawn_success": float(successes(world, with_noise).mean())}
            for world, found, with_noise in zip(where, likeliest, drawn, strict=True)
        ]

    return score


if __name__ == "__main__":
    end_with_parent()
    folder, given = Path(sys.argv[1]), json.loads(sys.argv[2])
    with exit_if_busy():
        train(folder, Settings.from_plain(given["settings"]), workers=given["workers"])
