"""The trials of an experiment: packed into fleets, trained, resumed, never repeated.

A `Trial` has the settings of one run, a `Plan` those that all runs of an experiment share. Trials
with the same algorithm and shapes are a fleet, which has a folder of its own:

    runs/<algorithm>-<environments>-<digest>/   trials.json, and what `train` writes; log.txt if
                                                several fleets trained at the same time
    scores.csv                                  one row for each evaluation of each run

A trial is finished if its last step is in its folder or in scores.csv. So a table can be completed
in parts and on several machines, from the CSV files alone.
"""

import hashlib
import json
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from lobsdice import console
from lobsdice.data.files import cache_folder, write_csv
from lobsdice.environments.tasks.table import SOURCES, spec_of
from lobsdice.errors import LobsDICEError, plural
from lobsdice.executors import watch
from lobsdice.executors.job import LOG, Executor, Job, killed, make_job
from lobsdice.experiments.control import fleet
from lobsdice.experiments.control.data import wanted
from lobsdice.experiments.control.episodes import (
    BuiltIn,
    EpisodeSource,
    absolute_name,
    make_source,
)
from lobsdice.experiments.control.fleet import FAILURE, TRIALS, read_trials
from lobsdice.experiments.control.grid import IDENTITY, Plan, Trial
from lobsdice.training.engine import Options
from lobsdice.training.folder import RunFolder, read_rows
from lobsdice.training.loggers import Row

#: Letters of the words in the name of a folder.
LONGEST = 180
RUNS, SCORES = "runs", "scores.csv"
#: The program of a process that trains one fleet.
PROGRAM = ("-P", "-m", fleet.__name__)
SCORE = ("step", "return", "return_std", "score")
#: The share of an algorithm's weights on the transitions of each source.
MASS = tuple(f"mass_{source}" for source in SOURCES)
#: The column that only a labelled trial has.
EXPERT_ERROR = "inverse_expert_error"

#: The rows of each run by their steps. Its key is the values of the columns `IDENTITY`.
Runs = dict[tuple, dict[int, Row]]
#: Fleets by their folders.
Fleets = dict[Path, list[Trial]]


def run_all(
    trials: Sequence[Trial],
    plan: Plan,
    data: str,
    folder: Path,
    *,
    reuse: Sequence[Path] = (),
    executor: Executor | None = None,
) -> list[Row]:
    """Train the trials that are not finished, write scores.csv, and return the scores of all.

    A failure does not stop the others. `data` is the name of the episodes' source. Runs that the
    folders of `reuse` have are copied from there. Without an executor fleets train in this
    process, one by one.
    """
    source = make_source(data)
    trials = list(dict.fromkeys(trials))  # without repeated ones
    if reuse:
        _adopt(trials, plan, reuse, folder)
    todo = _todo(trials, plan, folder)
    _collect(todo, source)
    if executor is not None:
        watch.run_all(executor, _jobs(todo, plan, data, executor.cores), len(todo), conclude)
    else:
        for path, group in todo.items():
            _begin(path, group)
            fleet.train(path, plan, source)
    rows = scores(trials, plan, folder)
    if not rows:
        where = f"{FAILURE} or {LOG} in {RUNS}/*"
        raise LobsDICEError(f"no run of {folder} has reached its last step; see {where}")
    _write_scores(folder, [*_others(trials, folder), *rows])
    return rows


def fleets(trials: Iterable[Trial]) -> list[list[Trial]]:
    """The trials in groups that can train in one program: the same algorithm and shapes."""
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        spec = spec_of(trial.environment)
        algorithm, options = trial.make(), trial.settings.options(Options())
        labels = trial.labelled or algorithm.needs_labels
        made = jax.tree.structure((algorithm, options))
        shape = (made, spec.state_size, spec.action_space, labels)
        groups.setdefault(shape, []).append(trial)
    return list(groups.values())


def _todo(trials: Sequence[Trial], plan: Plan, folder: Path) -> Fleets:
    """The fleets to train: first those that were interrupted, then new ones."""
    known = {_identity(row) for row in scores(trials, plan, folder)}
    begun = {trial for path in folders(folder) for trial in read_trials(path)}
    new = [t for t in trials if t not in begun and _identity(t.columns()) not in known]
    return {path: read_trials(path) for path in unfinished(folder, plan.steps)} | {
        folder / RUNS / _name(group): group for group in fleets(new)
    }


def _collect(todo: Fleets, source: EpisodeSource) -> None:
    """Collect missing built-in episodes now, so that no two processes collect the same ones."""
    if not isinstance(source, BuiltIn):
        return
    needed = wanted(trial for trials in todo.values() for trial in trials)
    for environment, counts in needed.items():
        with suppress(Exception):  # the fleets that need them fail and report it
            source.episodes(environment, counts)


def _jobs(todo: Fleets, plan: Plan, data: str, workers: int) -> Iterator[Job]:
    """The jobs of the fleets; the folder of each is made when it is drawn."""
    source, cache = make_source(data), str(cache_folder().absolute())
    settings = {"plan": plan.to_plain(), "data": absolute_name(data), "workers": workers}
    for path, trials in todo.items():
        _begin(path, trials)
        needed = wanted(trials).items()
        yield make_job(
            PROGRAM,
            path,
            settings,
            steps=plan.steps,
            data=[file for name, counts in needed for file in source.files(name, counts)],
            variables={"LOBSDICE_CACHE": cache},
        )


def _begin(path: Path, trials: Sequence[Trial]) -> None:
    console.say(f"{path.name}: {plural(len(trials), 'run')}")
    fleet.write_trials(path, trials)


def conclude(path: Path, status: int) -> None:
    """Report how a fleet's process ended; write failure.txt if it died before it could.

    A fleet that was killed from outside, such as for lack of memory, has not failed. The next
    command continues it.
    """
    if killed(status):
        how = f"was ended by a signal ({signal.strsignal(-status)}), see its {LOG}"
        return console.say(f"warning: {path.name} {how}; the same command continues it")
    if status == fleet.BUSY:
        return console.say(f"warning: {path.name} is being trained by another process")
    if status and not (path / FAILURE).exists():
        fleet.write_failure(path, f"its process died (exit status {status}); see {LOG}")
    if (path / FAILURE).exists():
        console.say(f"warning: {path.name} failed: {(path / FAILURE).read_text().strip()}")
    else:
        console.say(f"{path.name}: done")


def failures(folder: Path) -> dict[str, str]:
    """The reason of the failure of each fleet in which a run failed."""
    return {
        path.name: (path / FAILURE).read_text().strip()
        for path in folders(folder)
        if (path / FAILURE).exists()
    }


def scores(trials: Iterable[Trial], plan: Plan, folder: Path) -> list[Row]:
    """The evaluations of the finished ones among the trials."""
    runs = _stored(folder)
    return [row for trial in trials for row in _rows_of(trial, plan, runs)]


def _stored(folder: Path) -> Runs:
    """All evaluations in a folder, run by run. Rows of fleets replace rows of scores.csv."""
    runs: Runs = {}
    for row in [*read_rows(folder / SCORES), *fresh_rows(folder, read_trials, _measured)]:
        runs.setdefault(_identity(row), {})[row["step"]] = row
    return runs


def _rows_of(trial: Trial, plan: Plan, runs: Runs) -> list[Row]:
    """The rows of a trial up to the plan's last step; none if it has not reached that step."""
    mine = runs.get(_identity(trial.columns()), {})
    return [row for step, row in mine.items() if step <= plan.steps] if plan.steps in mine else []


def _adopt(trials: Sequence[Trial], plan: Plan, others: Sequence[Path], folder: Path) -> None:
    """Copy missing runs into this folder's scores.csv, each from the first folder that has it."""
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
    """True if the rows of a run have all measurements that the trial needs."""
    measures = {"score", EXPERT_ERROR} if trial.labelled else {"score"}
    return bool(rows) and all(measures <= row.keys() for row in rows)


def _others(trials: Iterable[Trial], folder: Path) -> list[Row]:
    """The rows of scores.csv of all trials but these."""
    wanted = {_identity(trial.columns()) for trial in trials}
    return [row for row in read_rows(folder / SCORES) if _identity(row) not in wanted]


def fresh_rows(
    folder: Path, read: Callable[[Path], Sequence[Any]], measured: Callable[[Row], Row]
) -> list[Row]:
    """The rows of all fleets of the folder, each with its trial's columns.

    `read` gives the trials of a fleet's folder, `measured` the columns of a row that are kept.
    """
    rows = []
    for path in folders(folder):
        columns = [trial.columns() for trial in read(path)]
        rows.extend(columns[row["run"]] | measured(row) for row in RunFolder(path).rows())
    return rows


def _measured(row: Row) -> Row:
    """The measurements of metrics.csv that go into scores.csv, which has no losses."""
    return {k: row[k] for k in (*SCORE, *MASS, "inverse_error", EXPERT_ERROR) if k in row}


def _write_scores(folder: Path, rows: list[Row]) -> None:
    write_csv(folder / SCORES, [dict.fromkeys(IDENTITY, "") | row for row in rows])


def _identity(row: Mapping[str, Any]) -> tuple:
    return tuple(str(row.get(name, "")) for name in IDENTITY)


def folders(folder: Path) -> list[Path]:
    """The folders of all fleets of an experiment."""
    return sorted(path.parent for path in (folder / RUNS).glob(f"*/{TRIALS}"))


def unfinished(folder: Path, last: int) -> list[Path]:
    """The folders of fleets that were interrupted: not at step `last`, and not failed."""
    waiting = [path for path in folders(folder) if not (path / FAILURE).exists()]
    steps = {p: max((row["step"] for row in RunFolder(p).rows()), default=0) for p in waiting}
    return [path for path in waiting if steps[path] < last]


def _name(trials: Sequence[Trial]) -> str:
    text = json.dumps([asdict(trial) for trial in trials])
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    environments = "+".join(dict.fromkeys(trial.environment for trial in trials))
    return folder_name(f"{trials[0].algorithm}-{environments}", digest)


def folder_name(words: str, digest: str) -> str:
    """The name of a fleet's folder, as short as file systems want it."""
    plain = re.sub(r"[^\w+.-]", "-", words)
    return f"{plain[:LONGEST]}-{digest}"
