"""Gather the parts of a report on a run folder. If a part is missing, a text says why."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lobsdice import console
from lobsdice.data.audit import Audit, audit
from lobsdice.data.episodes import Episodes
from lobsdice.environments.gym import registered
from lobsdice.errors import LobsDICEError
from lobsdice.report.clips import Clips, film
from lobsdice.report.rehearsal import Rehearsals, kept
from lobsdice.report.rewards import Rewards, rate
from lobsdice.report.run_record import RunRecord
from lobsdice.report.weights import Weights, weigh
from lobsdice.training.diagnostics import Weighing
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder, fingerprint
from lobsdice.training.recipe import Recipe


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The data that a run folder's runs learned from, read again."""

    expert: Episodes
    offline: Episodes
    fleet: Fleet
    file: str | None
    """Name of the file of the offline data, if there is only one."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a report; a text stands for a part that is missing, and says why."""

    run: RunRecord
    data: TrainingData | str
    audit: Audit | str
    weights: Weights | str
    clips: Clips | str
    rewards: Rewards | str | None = None
    """None if the algorithm has none."""
    rehearsals: Rehearsals | str = "the policies were not rehearsed"


def gather(
    run: RunRecord,
    *,
    environment: str | None,
    with_audit: bool = True,
    with_clip: bool = True,
) -> Parts:
    """Gather every part that was asked for and can be made.

    `environment` is the one that the user has named. Without it, the run folder may name one.
    """
    data = training_data(run)
    rehearsals = _rehearsals(run, data)
    return Parts(
        run,
        data,
        audit=_audit(data) if with_audit else "it was not asked for (--no-audit)",
        weights=_weights(run, data),
        rewards=_rewards(run, data),
        clips=_clips(run, data, rehearsals, environment)
        if with_clip
        else "it was not asked for (--no-clip)",
        rehearsals=rehearsals,
    )


def training_data(run: RunRecord) -> TrainingData | str:
    """Read the training data again, or say why it cannot be read."""
    if not run.settings:
        return "the run was not made by `lobsdice train`, and does not name its data"
    try:
        recipe = Recipe.from_plain(run.settings)
    except LobsDICEError as error:
        return str(error)
    # In earlier versions this was an option of the data, and `keep` changed nothing there.
    terminal = run.settings["preparation"].get("terminal", "keep")
    if terminal != "keep":
        return f"an earlier version trained it, with another meaning of --terminal {terminal}"
    try:
        recordings = recipe.recordings()
        fleet = recipe.fleet(recordings)
    except LobsDICEError as error:
        return f"the data cannot be read again: {error}"
    # Other data must not be weighed and audited as if the run had learned from it.
    with_ends = "terminal" not in run.settings["preparation"]
    if run.fingerprints != [fingerprint(data, with_ends=with_ends) for data in fleet.datas]:
        return "the recordings are no longer those that the run learned from"
    file = Path(recipe.offline[0]).name if len(recipe.offline) == 1 else None
    return TrainingData(recordings.expert, recordings.offline, fleet, file)


def _audit(data: TrainingData | str) -> Audit | str:
    if isinstance(data, str):
        return data
    return _attempt(audit, data.expert, data.offline)


def _weights(run: RunRecord, data: TrainingData | str) -> Weights | str:
    if isinstance(data, str):
        return data
    algorithm = data.fleet.members[0].algorithm
    if algorithm.scored_by is not None and not isinstance(algorithm, Weighing):
        return "what is cloned follows from the rewards of the logs, which are shown below"
    with console.waiting("Weighing the recordings"):
        return _attempt(weigh, RunFolder(run.path), data.fleet, data.offline, data.file)


def _rewards(run: RunRecord, data: TrainingData | str) -> Rewards | str | None:
    if isinstance(data, str):
        return None
    if data.fleet.members[0].algorithm.scored_by is None:
        return None
    return _attempt(rate, RunFolder(run.path), data.fleet, data.offline, data.file)


def _rehearsals(run: RunRecord, data: TrainingData | str) -> Rehearsals | str:
    if isinstance(data, str):
        return data
    names = data.fleet.datas[0].normaliser.names  # of either file
    return _attempt(kept, run.path, data.expert, names)


def _clips(
    run: RunRecord,
    data: TrainingData | str,
    rehearsals: Rehearsals | str,
    environment: str | None,
) -> Clips | str:
    if environment is None and run.environment is None:
        return "no environment was named; --env names one"
    expert = None if isinstance(data, str) else data.expert
    rehearsed = None if isinstance(rehearsals, str) else rehearsals.first
    with console.waiting("Filming the policy"):
        return _attempt(_film_first, run, environment, expert, rehearsed)


def _film_first(
    run: RunRecord, named: str | None, expert: Episodes | None, rehearsed: Any
) -> Clips:
    environment = named or registered(run.environment)
    number, policy = next(iter(RunFolder(run.path).policies("last").items()))
    whose = f"The last policy of seed {run.runs[number]['seed']}"
    return film(policy, whose, environment, expert, rehearsed)


def _attempt(job: Callable[..., Any], *arguments: Any) -> Any:
    """Return the job's result, or the reason why there is none."""
    try:
        return job(*arguments)
    except LobsDICEError as error:
        return str(error)
