"""Experiments as declared tables of runs: packed into fleets, resumed, never repeated.

A `Trial` says all about one run; a `Plan` what all runs of an experiment share. Trials with the
same algorithm and shapes train in one program, in a folder of their own:

    runs/<algorithm>-<environments>-<digest>/   trials.json, and what `train` writes; log.txt if
                                                others trained at the same time
    scores.csv                                  one row for each evaluation of each run

A trial is finished when its folder or scores.csv has its last step, so a table can be run in
pieces, on several machines, from the CSV files alone.
"""

import hashlib
import json
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from lobsdice import console
from lobsdice.data.files import atomic, write_csv
from lobsdice.data.machine import cores
from lobsdice.data.prepare import Data, prepare
from lobsdice.environments.evaluate import evaluate, summary
from lobsdice.environments.tasks.table import SOURCES, spec_of
from lobsdice.environments.tasks.task import divide, needed
from lobsdice.errors import LobsDICEError, plural
from lobsdice.experiments.control.episodes import BuiltIn, Source
from lobsdice.experiments.control.grid import IDENTITY, Plan, Trial
from lobsdice.experiments.control.processes import apart
from lobsdice.policies.policy import Policy
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import CHECKPOINT, CONFIG, RunFolder, read_rows
from lobsdice.training.loggers import Row
from lobsdice.training.train import train_fleet

RUNS, TRIALS, SCORES = "runs", "trials.json", "scores.csv"
FAILURE, LOG = "failure.txt", "log.txt"
SCORE = ("step", "return", "return_std", "score")
#: How much of an algorithm's weight lies on each source of recordings.
MASS = tuple(f"mass_{source}" for source in SOURCES)
#: Signals from outside; others, such as of a broken assertion, would come again.
KILLED = [getattr(signal, f"SIG{name}", None) for name in ("KILL", "TERM", "INT", "HUP")]
#: The column that only a labelled trial has.
EXPERT_ERROR = "inverse_expert_error"

#: The rows of each run, by what tells it from others and by their steps.
Runs = dict[tuple, dict[int, Row]]
#: Fleets by their folders.
Fleets = dict[Path, list[Trial]]


def run_all(
    trials: Sequence[Trial],
    plan: Plan,
    source: Source,
    folder: Path,
    *,
    reuse: Sequence[Path] = (),
    jobs: int = 1,
) -> list[Row]:
    """Run what is not finished, and give the scores of all; a failure does not stop the rest.

    Runs that the folders of `reuse` have are taken over from there. `jobs` fleets train at a time.
    """
    trials = list(dict.fromkeys(trials))  # one that is asked for twice is one
    if reuse:
        _adopt(trials, plan, reuse, folder)
    todo = _todo(trials, plan, folder)
    if jobs > 1 and len(todo) > 1:
        _collect(todo, source)
        _run_apart(todo, plan, source, min(jobs, len(todo)))
    else:
        for path, group in todo.items():
            _begin(path, group)
            _train(path, group, plan, source)
    rows = scores(trials, plan, folder)
    if not rows:
        where = f"{FAILURE} or {LOG} in {RUNS}/*"
        raise LobsDICEError(f"no run of {folder} has come to its end; see {where}")
    _write_scores(folder, [*_others(trials, folder), *rows])
    return rows


def fleets(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Trials that can train in one program, together: the same algorithm, the same shapes."""
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        spec = spec_of(trial.environment)
        labels = trial.labelled or trial.make().needs_labels
        shape = (trial.algorithm, spec.state_size, spec.action_space, labels)
        groups.setdefault(shape, []).append(trial)
    return list(groups.values())


def make_fleet(trials: Sequence[Trial], plan: Plan, source: Source) -> Fleet:
    """The trials as members of a fleet; those on the same data share it."""
    datasets = list(dict.fromkeys(trial.dataset for trial in trials))
    members = tuple(
        Member(t.make(plan.ratio_penalty), t.seed, datasets.index(t.dataset), plan.options)
        for t in trials
    )
    labels = members[0].algorithm.needs_labels
    return Fleet(members, tuple(make_data(d, source, labels=labels) for d in datasets))


def make_data(trial: Trial, source: Source, *, labels: bool = False) -> Data:
    """What a trial learns from."""
    episodes = source.episodes(trial.environment, _needed(trial))
    demonstrations, rest = divide(episodes, trial.demonstrations, _offline(trial))
    return prepare(
        demonstrations.without_actions(),
        rest,
        every=trial.subsample,
        labelled=demonstrations if labels or trial.labelled else None,
    )


def _offline(trial: Trial) -> dict[str, int]:
    return {s: n for s, n in zip(SOURCES, trial.mixture, strict=True) if n}


def _needed(trial: Trial) -> dict[str, int]:
    return needed(trial.demonstrations, _offline(trial))


def _todo(trials: Sequence[Trial], plan: Plan, folder: Path) -> Fleets:
    """What is left to train: fleets that go on as they were begun earlier, then new ones."""
    known = {_identity(row) for row in scores(trials, plan, folder)}
    begun = {trial for path in _folders(folder) for trial in _read_trials(path)}
    new = [t for t in trials if t not in begun and _identity(t.columns()) not in known]
    return {path: _read_trials(path) for path in _unfinished(folder, plan)} | {
        folder / RUNS / _name(group): group for group in fleets(new)
    }


def _collect(todo: Fleets, source: Source) -> None:
    """Collect the built-in episodes that are missing before processes need the same ones."""
    if not isinstance(source, BuiltIn):
        return
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for trials in todo.values():
        for trial in trials:
            counts[trial.environment] |= Counter(_needed(trial))  # the larger of each
    for environment, wanted in counts.items():
        with suppress(Exception):  # the fleets that need it will fail, and say why
            source.episodes(environment, wanted)


def _run_apart(todo: Fleets, plan: Plan, source: Source, jobs: int) -> None:
    """Train so many fleets at a time, each in a process of its own with its share of the cores."""
    workers = max(1, cores() // jobs)

    def jobs_in_turn() -> Iterator[tuple[Path, Callable[[], None]]]:
        for path, trials in todo.items():
            _begin(path, trials)
            yield path / LOG, partial(_train, path, trials, plan, source, workers=workers)

    with (
        console.progress("Programs", len(todo)) as advance,
        closing(apart(jobs_in_turn(), jobs)) as ended,
    ):
        for log, status in ended:
            _conclude(log.parent, status)
            advance()


def _conclude(path: Path, status: int) -> None:
    """Say how a fleet's process ended, and write down what it could not write itself.

    That it was killed, such as for want of memory, is no finding: the next time it goes on.
    """
    if -status in KILLED:
        how = f"was ended by a signal ({signal.strsignal(-status)}), see its {LOG}"
        return console.say(f"warning: {path.name} {how}; the same command goes on with it")
    if status and not (path / FAILURE).exists():
        _write_failure(path, f"its process died (exit status {status}); see {LOG}")
    if (path / FAILURE).exists():
        console.say(f"warning: {path.name} failed: {(path / FAILURE).read_text().strip()}")
    else:
        console.say(f"{path.name}: done")


def _begin(path: Path, trials: Sequence[Trial]) -> None:
    console.say(f"{path.name}: {plural(len(trials), 'run')}")
    with atomic(path / TRIALS) as temporary:
        temporary.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n")


def _train(
    path: Path, trials: list[Trial], plan: Plan, source: Source, *, workers: int | None = None
) -> None:
    """Train a fleet to its end, or write down why it could not be."""
    try:
        fleet = make_fleet(trials, plan, source)
        evaluation = _evaluation(trials, plan, source, workers)
        resume = (path / CONFIG).exists()
        run = train_fleet(fleet, every=plan.every, evaluate=evaluation, out=path, resume=resume)
        if run.failures:  # the checkpoint stays: a report reads there which runs have stopped
            _write_failure(path, "; ".join(run.failures.values()))
        else:
            (path / CHECKPOINT).unlink()  # large, and of no more use
    except Exception as error:
        _write_failure(path, f"{type(error).__name__}: {error}")
        console.say(f"warning: {path.name} failed: {error}")


def _write_failure(path: Path, why: str) -> None:
    with atomic(path / FAILURE) as temporary:
        temporary.write_text(why + "\n")


def _evaluation(
    trials: Sequence[Trial], plan: Plan, source: Source, workers: int | None
) -> Callable:
    """Scores of a fleet's policies, each in the environment of its trial."""

    where = [trial.environment for trial in trials]

    def score(policies: Sequence[Policy]) -> list[dict[str, float]]:
        found = evaluate(policies, where, episodes=plan.episodes, workers=workers)
        return [
            summary(row, partial(source.normalised, name))
            for name, row in zip(where, found, strict=True)
        ]

    return score


def scores(trials: Iterable[Trial], plan: Plan, folder: Path) -> list[Row]:
    """The evaluations of those of the trials that are finished."""
    runs = _stored(folder)
    return [row for trial in trials for row in _rows_of(trial, plan, runs)]


def _stored(folder: Path) -> Runs:
    """All that a folder knows, run by run; a fresh row replaces one of the table."""
    runs: Runs = {}
    for row in [*read_rows(folder / SCORES), *_fresh(folder)]:
        runs.setdefault(_identity(row), {})[row["step"]] = row
    return runs


def _rows_of(trial: Trial, plan: Plan, runs: Runs) -> list[Row]:
    """The rows of a trial up to the plan's last step; none if it has not come that far."""
    mine = runs.get(_identity(trial.columns()), {})
    return [row for step, row in mine.items() if step <= plan.steps] if plan.steps in mine else []


def _adopt(trials: Sequence[Trial], plan: Plan, others: Sequence[Path], folder: Path) -> None:
    """Enter runs of other folders into this one's table, each whole from the first that has it."""
    here, elsewhere = _stored(folder), [_stored(other) for other in others]
    missing = [trial for trial in trials if not _rows_of(trial, plan, here)]
    found = [
        next((rows for runs in elsewhere if _serves(rows := _rows_of(t, plan, runs), t)), [])
        for t in missing
    ]
    if missing:
        console.say(f"{plural(sum(map(bool, found)), 'run')} of {len(missing)} taken over")
    if any(found):
        adopted = [row for rows in found for row in rows]
        _write_scores(folder, [*read_rows(folder / SCORES), *adopted])


def _serves(rows: list[Row], trial: Trial) -> bool:
    """Whether a run of another experiment has measured what a trial is for."""
    needed = {"score", EXPERT_ERROR} if trial.labelled else {"score"}
    return bool(rows) and all(needed <= row.keys() for row in rows)


def failures(folder: Path) -> dict[str, str]:
    """For each fleet that could not be trained, or not all of it, why."""
    return {
        path.name: (path / FAILURE).read_text().strip()
        for path in _folders(folder)
        if (path / FAILURE).exists()
    }


def _others(trials: Iterable[Trial], folder: Path) -> list[Row]:
    """Stored rows of trials that were not asked for this time, which are kept."""
    wanted = {_identity(trial.columns()) for trial in trials}
    return [row for row in read_rows(folder / SCORES) if _identity(row) not in wanted]


def _fresh(folder: Path) -> list[Row]:
    """The rows of all fleets of the folder, each with its trial's columns."""
    rows = []
    for path in _folders(folder):
        columns = [trial.columns() for trial in _read_trials(path)]
        rows.extend(columns[row["run"]] | _measured(row) for row in RunFolder(path).rows())
    return rows


def _measured(row: Row) -> Row:
    """What a table of scores keeps of a row of metrics: no losses, those stay with the run."""
    return {k: row[k] for k in (*SCORE, *MASS, "inverse_error", EXPERT_ERROR) if k in row}


def _write_scores(folder: Path, rows: list[Row]) -> None:
    write_csv(folder / SCORES, [dict.fromkeys(IDENTITY, "") | row for row in rows])


def _identity(row: Mapping[str, Any]) -> tuple:
    return tuple(str(row.get(name, "")) for name in IDENTITY)


def _folders(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / RUNS).glob(f"*/{TRIALS}"))


def _unfinished(folder: Path, plan: Plan) -> list[Path]:
    """Fleets that were interrupted: neither at their end nor failed."""

    def done(path: Path) -> bool:
        steps = [row["step"] for row in RunFolder(path).rows()]
        return (path / FAILURE).exists() or max(steps, default=0) >= plan.steps

    return [path for path in _folders(folder) if not done(path)]


def _read_trials(path: Path) -> list[Trial]:
    rows: list[dict[str, Any]] = json.loads((path / TRIALS).read_text())
    for row in rows:
        row["mixture"] = tuple(row["mixture"])
    return [Trial(**row) for row in rows]


def _name(trials: Sequence[Trial]) -> str:
    text = json.dumps([asdict(trial) for trial in trials])
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    environments = "+".join(dict.fromkeys(trial.environment for trial in trials))
    return f"{trials[0].algorithm}-{environments}-{digest}"
