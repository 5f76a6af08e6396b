"""One fleet of an experiment: trials with the same algorithm and shapes, trained in one program.

Its folder holds trials.json and what training writes, or failure.txt with the reason of a failure.
`python -m lobsdice.experiments.control.fleet FOLDER SETTINGS` is the program of a process that
`trials` starts.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from lobsdice import console
from lobsdice.data.files import atomic
from lobsdice.environments.evaluate import evaluate, summary
from lobsdice.executors.program import end_with_parent
from lobsdice.experiments.control.data import make_data, wanted
from lobsdice.experiments.control.episodes import EpisodeSource, make_source
from lobsdice.experiments.control.grid import Plan, Trial
from lobsdice.policies.policy import Policy
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import CONFIG, RunFolder
from lobsdice.training.lock import BusyError
from lobsdice.training.recorder import Evaluate
from lobsdice.training.train import train_fleet

TRIALS, FAILURE = "trials.json", "failure.txt"
#: The exit status of a process whose fleet another process trains.
BUSY = 75


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """Write trials.json into a fleet's folder."""
    with atomic(path / TRIALS) as temporary:
        temporary.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n")


def read_trials(path: Path) -> list[Trial]:
    """The trials of a fleet's folder."""
    rows: list[Any] = json.loads((path / TRIALS).read_text())
    return [Trial(**row | {"mixture": tuple(row["mixture"])}) for row in rows]


def write_failure(path: Path, why: str) -> None:
    """Write failure.txt into a fleet's folder."""
    with atomic(path / FAILURE) as temporary:
        temporary.write_text(why + "\n")


def train(path: Path, plan: Plan, source: EpisodeSource, *, workers: int | None = None) -> None:
    """Train the fleet of a folder to its end, or write failure.txt."""
    with failures_written(path):
        trials = read_trials(path)
        train_trials(
            path,
            fleet_of(trials, plan, source),
            every=plan.every,
            evaluate_at=partial(evaluation, trials, plan, source, workers),
        )


def train_trials(
    path: Path, fleet: Fleet, *, every: int | None, evaluate_at: Callable[[int], Evaluate]
) -> None:
    """Train a fleet, or go on training it; write failure.txt if any of its runs fails."""
    run = train_fleet(
        fleet, every=every, evaluate_at=evaluate_at, out=path, resume=(path / CONFIG).exists()
    )
    if run.failures:  # the checkpoint stays: a report reads there which runs failed
        write_failure(path, "; ".join(run.failures.values()))
    else:
        RunFolder(path).forget_checkpoint()  # large, and no longer needed


@contextmanager
def failures_written(path: Path) -> Iterator[None]:
    """Write failure.txt into a fleet's folder if anything goes wrong, and go on."""
    try:
        yield
    except BusyError:
        raise  # the fleet has not failed: another process trains it
    except Exception as error:
        write_failure(path, f"{type(error).__name__}: {error}")
        console.say(f"warning: {path.name} failed: {error}")


@contextmanager
def exit_if_busy() -> Iterator[None]:
    """End the process with the status `BUSY` if another process trains the fleet."""
    try:
        yield
    except BusyError as error:
        console.say(f"error: {error}")
        sys.exit(BUSY)


def fleet_of(trials: Sequence[Trial], plan: Plan, source: EpisodeSource) -> Fleet:
    """The trials as members of a fleet. Trials on the same dataset share it."""
    datasets = list(dict.fromkeys((trial.dataset, trial.settings.initial) for trial in trials))
    members = tuple(
        Member(
            trial.make(plan.hyperparameters),
            trial.seed,
            datasets.index((trial.dataset, trial.settings.initial)),
            trial.settings.options(plan.options),
        )
        for trial in trials
    )
    labels = members[0].algorithm.needs_labels
    pools = {env: source.episodes(env, counts) for env, counts in wanted(trials).items()}
    datas = (
        make_data(trial, pools[trial.environment], labels=labels, initial=initial)
        for trial, initial in datasets
    )
    return Fleet(members, tuple(datas))


def evaluation(
    trials: Sequence[Trial],
    plan: Plan,
    source: EpisodeSource,
    workers: int | None,
    step: int = 0,
) -> Evaluate:
    """The function that scores a fleet's policies, each in the environment of its trial.

    Episodes start alike for all policies of a step, and otherwise from step to step.
    """
    names = [trial.environment for trial in trials]
    places = [source.place(name) for name in names]

    def score(policies: Sequence[Policy]) -> list[dict[str, float]]:
        found = evaluate(policies, places, episodes=plan.episodes, seed=step, workers=workers)
        return [
            summary(row, partial(source.normalised, name))
            for name, row in zip(names, found, strict=True)
        ]

    return score


if __name__ == "__main__":
    end_with_parent()
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    plan, source = Plan.from_plain(settings["plan"]), make_source(settings["data"])
    with exit_if_busy():
        train(folder, plan, source, workers=settings["workers"])
