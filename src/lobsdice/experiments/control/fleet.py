"""One fleet of an experiment: trials with the same algorithm and shapes, trained in one program.

Its folder holds trials.json and what training writes, or failure.txt with the reason of a failure.
`python -m lobsdice.experiments.control.fleet FOLDER SETTINGS` is the program of a process that
`trials` starts.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from lobsdice import console
from lobsdice.data.files import atomic
from lobsdice.data.prepare import Data, prepare
from lobsdice.environments.evaluate import evaluate, summary
from lobsdice.environments.tasks.task import divide, needed
from lobsdice.experiments.control.episodes import EpisodeSource, make_source
from lobsdice.experiments.control.grid import Plan, Trial
from lobsdice.experiments.control.processes import end_with_parent
from lobsdice.policies.policy import Policy
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import CONFIG, RunFolder
from lobsdice.training.lock import BusyError
from lobsdice.training.train import train_fleet

TRIALS, FAILURE = "trials.json", "failure.txt"


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
    try:
        trials = read_trials(path)
        run = train_fleet(
            fleet_of(trials, plan, source),
            every=plan.every,
            evaluate=evaluation(trials, plan, source, workers),
            out=path,
            resume=(path / CONFIG).exists(),
        )
        if run.failures:  # the checkpoint stays: a report reads there which runs failed
            write_failure(path, "; ".join(run.failures.values()))
        else:
            RunFolder(path).forget_checkpoint()  # large, and no longer needed
    except BusyError:
        raise  # the fleet has not failed: another process trains it
    except Exception as error:
        write_failure(path, f"{type(error).__name__}: {error}")
        console.say(f"warning: {path.name} failed: {error}")


def fleet_of(trials: Sequence[Trial], plan: Plan, source: EpisodeSource) -> Fleet:
    """The trials as members of a fleet. Trials on the same dataset share it."""
    datasets = list(dict.fromkeys(trial.dataset for trial in trials))
    members = tuple(
        Member(t.make(plan.ratio_penalty), t.seed, datasets.index(t.dataset), plan.options)
        for t in trials
    )
    labels = members[0].algorithm.needs_labels
    return Fleet(members, tuple(make_data(d, source, labels=labels) for d in datasets))


def make_data(trial: Trial, source: EpisodeSource, *, labels: bool = False) -> Data:
    """The data of a trial; with `labels`, the demonstrations have their actions."""
    episodes = source.episodes(trial.environment, needed(trial.demonstrations, trial.offline))
    demonstrations, rest = divide(episodes, trial.demonstrations, trial.offline)
    return prepare(
        demonstrations.without_actions(),
        rest,
        every=trial.subsample,
        labelled=demonstrations if labels or trial.labelled else None,
    )


def evaluation(
    trials: Sequence[Trial], plan: Plan, source: EpisodeSource, workers: int | None
) -> Callable[[Sequence[Policy]], list[dict[str, float]]]:
    """A function that scores the policies of a fleet, each in the environment of its trial."""
    names = [trial.environment for trial in trials]
    places = [source.place(name) for name in names]

    def score(policies: Sequence[Policy]) -> list[dict[str, float]]:
        found = evaluate(policies, places, episodes=plan.episodes, workers=workers)
        return [
            summary(row, partial(source.normalised, name))
            for name, row in zip(names, found, strict=True)
        ]

    return score


if __name__ == "__main__":
    end_with_parent()
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    plan, source = Plan(**settings["plan"]), make_source(settings["data"])
    train(folder, plan, source, workers=settings["workers"])
