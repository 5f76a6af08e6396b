"""A sweep from its first settings to its tables:

    study.journal        Optuna's study, which several machines may share
    settings.json        what varies, and how the runs are trained
    rounds/<n>/          the settings of a round (settings.json), its fleets, and which went on
    settings.csv         every setting with its value
    importances.json     how much each hyperparameter matters

A round that was interrupted goes on with the next command.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice import console
from lobsdice.data.files import atomic, cache_folder, write_csv
from lobsdice.errors import LobsDICEError, plural
from lobsdice.executors import watch
from lobsdice.executors.job import Executor, make_job
from lobsdice.executors.train import files_below, recipe_files
from lobsdice.experiments.settings import claim
from lobsdice.experiments.sweep import fleet as program
from lobsdice.experiments.sweep.fleet import Rung
from lobsdice.experiments.sweep.space import Setting, Space, static
from lobsdice.experiments.sweep.study import FACTOR, Study, open_study
from lobsdice.training.folder import RunFolder
from lobsdice.training.lock import BusyError, locked
from lobsdice.training.recipe import Recipe
from lobsdice.training.select import CRITERION

ROUNDS, SETTINGS, IMPORTANCES, CHOSEN = (
    "rounds",
    "settings.csv",
    "importances.json",
    "settings.json",
)
PROGRAM = ("-P", "-m", program.__name__)


@dataclass(frozen=True)
class Plan:
    """The number of settings that a sweep tries, and the way it chooses them."""

    settings: int = 64
    """Settings to try in all."""
    runs: int = 16
    """Settings of a round, which train as one fleet. Those that differ in a whole number or a
    switch are fleets of their own."""
    rungs: int = 3
    """Stops of a training: 3 are after a ninth, a third and all of the steps. From each stop the
    best third of all settings that came so far goes on. With 1 every setting trains to the end."""

    def stops(self, steps: int, every: int) -> list[int]:
        """The steps at which settings are dropped, and the last step."""
        parts = [-(-steps // FACTOR**i // every) * every for i in reversed(range(self.rungs))]
        return sorted({step for step in parts if 0 < step < steps} | {steps})


@dataclass(frozen=True)
class Sweep:
    """A sweep in its folder."""

    folder: Path
    recipe: Recipe
    plan: Plan
    study: Study
    executor: Executor | None
    every: int

    @property
    def value(self) -> str:
        """The column of metrics.csv that settings are compared by."""
        return "return" if self.recipe.environment else CRITERION

    def run(self) -> None:
        """Go on with rounds that were interrupted, then try new settings until there are enough."""
        for path in sorted((self.folder / ROUNDS).glob(f"*/{CHOSEN}")):
            with suppress(BusyError), locked(path.parent):  # busy: another machine is at it
                settings = {int(n): s for n, s in json.loads(path.read_text()).items()}
                if self.study.unfinished() & set(settings):
                    self._round(path.parent, settings)
        while (left := self.plan.settings - self.study.count()) > 0:
            settings = self.study.ask(min(self.plan.runs, left))
            path = self.folder / ROUNDS / f"{min(settings):05}"
            with locked(path):
                with atomic(path / CHOSEN) as temporary:
                    temporary.write_text(json.dumps(settings, indent=1) + "\n")
                self._round(path, settings)
            self.write_tables()

    def _round(self, path: Path, settings: dict[int, Setting]) -> None:
        """Train the settings of a round from rung to rung, and tell the study how it went."""
        console.say(f"round {path.name}: {plural(len(settings), 'setting')}")
        groups: dict[tuple, list[int]] = {}
        for number, setting in settings.items():
            groups.setdefault(static(setting), []).append(number)
        before: dict[int, tuple[Path, int]] = {}
        stops = self.plan.stops(self.recipe.training.steps, self.every)
        for stop in stops:
            fleets = {path / f"{stop}-{i}": ns for i, ns in enumerate(groups.values()) if ns}
            self._train({p: self._rung(stop, ns, settings, before) for p, ns in fleets.items()})
            values = {
                n: v for p, ns in fleets.items() for n, v in self._values(p, ns, stop).items()
            }
            before = {n: (p, i) for p, ns in fleets.items() for i, n in enumerate(ns)}
            for n in before.keys() & self.study.unfinished():
                p, i = before[n]
                where = p.relative_to(self.folder).as_posix()
                self.study.place(n, where, i * self.recipe.seeds)
            kept = self._decide(path / f"{stop}.json", values, stop)
            self._tell(values, kept, last=stop == stops[-1])
            groups = {key: [n for n in ns if n in kept] for key, ns in groups.items()}

    def _decide(self, path: Path, values: dict[int, float], stop: int) -> list[int]:
        """The settings that go on. A command that was interrupted must find them again."""
        if not path.exists():
            kept = self.study.keep(values, stop)
            with atomic(path) as temporary:
                temporary.write_text(json.dumps(kept) + "\n")
        return json.loads(path.read_text())

    def _tell(self, values: dict[int, float], kept: Sequence[int], *, last: bool) -> None:
        """Tell the study about the settings that end here, unless it has been told."""
        unfinished = self.study.unfinished()
        for number, value in values.items():
            if number not in unfinished:
                continue
            if last or not np.isfinite(value):
                self.study.tell(number, value)
            elif number not in kept:
                self.study.prune(number)

    def _rung(
        self,
        stop: int,
        numbers: Sequence[int],
        settings: dict[int, Setting],
        before: dict[int, tuple[Path, int]],
    ) -> Rung:
        chosen = [settings[n] for n in numbers]
        if not before:
            return Rung(self.recipe, self.every, stop, chosen)
        kept = [before[n][1] for n in numbers]
        return Rung(self.recipe, self.every, stop, chosen, before[numbers[0]][0], kept)

    def _train(self, rungs: dict[Path, Rung]) -> None:
        """Train fleets, here or where the executor says. One that fails does not stop others."""
        if self.executor is None:
            for path, rung in rungs.items():
                try:
                    program.train(path, rung)
                except LobsDICEError as error:
                    console.warn(f"{path.name} failed: {error}")
            return
        files = recipe_files(self.recipe)
        jobs = [
            make_job(
                PROGRAM,
                path,
                rung.to_plain(),
                steps=rung.stop,
                data=[*files, *(files_below(rung.before) if rung.before else [])],
                variables={"LOBSDICE_CACHE": str(cache_folder().absolute())},
            )
            for path, rung in rungs.items()
        ]
        watch.run_all(self.executor, jobs, len(jobs), _warn)

    def _values(self, path: Path, numbers: Sequence[int], stop: int) -> dict[int, float]:
        """The value of each setting of a fleet at a step: the mean over its seeds."""
        rows = RunFolder(path).rows() if path.exists() else []
        here = {row["run"]: float(row[self.value]) for row in rows if row["step"] == stop}
        seeds = range(self.recipe.seeds)
        runs = {n: [i * self.recipe.seeds + seed for seed in seeds] for i, n in enumerate(numbers)}
        return {
            n: float(np.mean([here.get(run, np.nan) for run in mine])) for n, mine in runs.items()
        }

    def write_tables(self) -> list[Path]:
        """Write settings.csv, the best first, and importances.json."""
        sign = -1.0 if self.study.larger_is_better else 1.0
        rows = self.study.rows()
        done = {"complete": 0, "pruned": 1}

        def order(row: dict[str, Any]) -> tuple:
            value = row["value"]
            known = value != ""
            return (done.get(row["state"], 2), not known, sign * value if known else 0.0)

        paths = [write_csv(self.folder / SETTINGS, sorted(rows, key=order))]
        with atomic(self.folder / IMPORTANCES) as temporary:
            temporary.write_text(json.dumps(self.study.importances(), indent=1) + "\n")
        return [*paths, self.folder / IMPORTANCES]


def _warn(path: Path, status: int) -> None:
    if status:
        console.warn(f"{path.name} failed (exit status {status}); see {path}/log.txt")


def sweep(
    recipe: Recipe,
    space: Space,
    plan: Plan,
    *,
    executor: Executor | None = None,
    every: int | None = None,
) -> list[Path]:
    """Search for hyperparameters in the folder of a recipe; return the tables that were written."""
    _check_options(recipe)
    folder = recipe.out
    claim(folder, json.loads(json.dumps({"space": space, "recipe": _claimed(recipe)})))
    study = open_study(folder, space, larger_is_better=recipe.environment is not None)
    steps = recipe.training.steps
    found = Sweep(folder, recipe, plan, study, executor, every or max(1, steps // 27))
    found.run()
    return found.write_tables()


def _check_options(recipe: Recipe) -> None:
    """Raise if an option was given that only a training of its own follows."""
    for name, value, usual in (
        ("tensorboard", recipe.tensorboard, False),
        ("wandb", recipe.wandb, None),
        ("keep", recipe.keep, "error"),
    ):
        if value != usual:
            raise LobsDICEError(
                f"a sweep does not use `{name}`; leave it out, and train the best setting with it"
            )


#: Parts of a recipe that results do not depend on.
NOT_CLAIMED = ("out", "json", "devices", "tensorboard", "wandb")


def _claimed(recipe: Recipe) -> dict[str, Any]:
    """What results depend on; not the options of a command that hands itself over as a recipe."""
    parts = {"name", *(f.name for f in fields(Recipe))}.difference(NOT_CLAIMED)
    return {key: x for key, x in recipe.to_plain().items() if key in parts}
