"""The trials of the experiment: packed into fleets, trained, resumed, never repeated.

    runs/<arms>-<worlds>-<digest>/   trials.json, and what training writes; log.txt if several
                                     fleets trained at the same time
    scores.csv                       one row for each evaluation of each finished run

A trial is finished if its last step is in its folder or in scores.csv.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from lobsdice import console
from lobsdice.data.files import cache_folder, write_csv
from lobsdice.data.machine import cores
from lobsdice.environments.tasks.table import spec_of
from lobsdice.environments.tasks.task import cached_files, load
from lobsdice.errors import LobsDICEError, plural
from lobsdice.executors import watch
from lobsdice.executors.job import Executor, Job, make_job
from lobsdice.experiments.control.trials import (
    RUNS,
    SCORES,
    conclude,
    folder_name,
    folders,
    fresh_rows,
    unfinished,
)
from lobsdice.experiments.endings import fleet
from lobsdice.experiments.endings.fleet import read_trials
from lobsdice.experiments.endings.settings import Settings, Trial
from lobsdice.training.folder import read_rows
from lobsdice.training.loggers import Row

#: The program of a process that trains one fleet.
PROGRAM = ("-P", "-m", fleet.__name__)
IDENTITY = ("arm", "world", "seed")
#: Columns of metrics.csv that go into scores.csv, and the beginning of others that do.
MEASURED = ("step", "return", "return_std", "score", "success", "drawn_success", "effective_share")
MASS = "mass_"

#: Fleets by their folders.
Fleets = dict[Path, list[Trial]]


def run_all(
    trials: Sequence[Trial],
    settings: Settings,
    folder: Path,
    *,
    executor: Executor | None = None,
) -> None:
    """Train the trials that are not finished, and write scores.csv.

    A failure does not stop the others. Without an executor fleets train in this process.
    """
    todo = _todo(trials, settings, folder)
    _collect(todo)
    if executor is not None:
        watch.run_all(executor, _jobs(todo, settings, executor.cores), len(todo), conclude)
    else:
        for path, group in todo.items():
            _begin(path, group)
            fleet.train(path, settings)
    rows = _finished(folder, settings)
    if not rows:
        raise LobsDICEError(f"no run of {folder} has reached its last step; see {RUNS}/*")
    write_csv(folder / SCORES, rows)


def fleets(trials: Iterable[Trial], settings: Settings) -> list[list[Trial]]:
    """The trials in groups that can train in one program; its runs may differ in real numbers."""
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        spec, made = spec_of(trial.world), fleet.made(trial, settings)
        shape = (jax.tree.structure(made), spec.state_size, spec.action_space)
        groups.setdefault(shape, []).append(trial)
    return list(groups.values())


def _todo(trials: Sequence[Trial], settings: Settings, folder: Path) -> Fleets:
    """The fleets to train: first those that were interrupted, then new ones."""
    known = {_identity(row) for row in _finished(folder, settings)}
    begun = {trial for path in folders(folder) for trial in read_trials(path)}
    new = [t for t in trials if t not in begun and _identity(t.columns()) not in known]
    return {path: read_trials(path) for path in unfinished(folder, settings.steps)} | {
        folder / RUNS / _name(group): group for group in fleets(new, settings)
    }


def _collect(todo: Fleets) -> None:
    """Collect missing episodes now, so that no two processes collect the same ones."""
    for world, seed in dict.fromkeys((t.world, t.seed) for ts in todo.values() for t in ts):
        with suppress(Exception):  # the fleets that need them fail and report it
            load(world, seed=seed)


def _jobs(todo: Fleets, settings: Settings, share: int) -> Iterator[Job]:
    """The jobs of the fleets; the folder of each is made when it is drawn."""
    # Evaluations of different fleets seldom coincide, so each may use twice its share.
    given = {"settings": settings.to_plain(), "workers": min(cores(), 2 * share)}
    variables = {"LOBSDICE_CACHE": str(cache_folder().absolute())}
    for path, trials in todo.items():
        _begin(path, trials)
        worlds = dict.fromkeys((trial.world, trial.seed) for trial in trials)
        data = [file for world, seed in worlds for file in cached_files(spec_of(world), seed=seed)]
        steps = settings.steps
        yield make_job(PROGRAM, path, given, steps=steps, data=data, variables=variables)


def _begin(path: Path, trials: Sequence[Trial]) -> None:
    console.say(f"{path.name}: {plural(len(trials), 'run')}")
    fleet.write_trials(path, trials)


def _finished(folder: Path, settings: Settings) -> list[Row]:
    """All evaluations of the runs that have reached the last step, in the order of their runs."""
    runs: dict[tuple, dict[int, Row]] = {}
    for row in [*read_rows(folder / SCORES), *fresh_rows(folder, read_trials, _measured)]:
        runs.setdefault(_identity(row), {})[row["step"]] = row
    found = [rows for rows in runs.values() if settings.steps in rows]
    return [row for rows in found for row in rows.values()]


def _measured(row: Row) -> Row:
    masses = [name for name in row if name.startswith(MASS)]
    return {name: row[name] for name in (*MEASURED, *masses) if name in row}


def _identity(row: Mapping[str, Any]) -> tuple:
    return tuple(str(row[name]) for name in IDENTITY)


def _name(trials: Sequence[Trial]) -> str:
    text = json.dumps([trial.to_plain() for trial in trials])
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    arms = "+".join(dict.fromkeys(trial.arm.name for trial in trials))
    worlds = "+".join(dict.fromkeys(trial.world for trial in trials))
    return folder_name(f"{arms}-{worlds}", digest)
