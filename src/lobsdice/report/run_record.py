"""A run folder as it was found: its configuration, metrics and failures, and nothing else."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lobsdice.environments.tasks.table import BUILT_IN
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control.fleet import TRIALS
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Row, measured
from lobsdice.training.settings import differences, flatten


@dataclass(frozen=True, eq=False)
class Variant:
    """Runs that differ only in the random seed."""

    label: str
    rows: Sequence[Row]
    runs: Sequence[int]

    @property
    def steps(self) -> list[int]:
        """The steps that have rows."""
        return sorted({row["step"] for row in self.rows})

    def values(self, metric: str, steps: Sequence[int]) -> np.ndarray:
        """Return an array [run, step] of a metric, with NaN for missing values."""
        found = np.full((len(self.runs), len(steps)), np.nan)
        places = {step: i for i, step in enumerate(steps)}
        numbers = {run: i for i, run in enumerate(self.runs)}
        for row in self.rows:
            if row["step"] in places and isinstance(row.get(metric), int | float):
                found[numbers[row["run"]], places[row["step"]]] = row[metric]
        return np.where(np.isfinite(found), found, np.nan)

    def ends(self, metric: str) -> np.ndarray:
        """Return the last value of each run that has one."""
        return np.array([v[~np.isnan(v)][-1] for v in self._measured(metric)])

    def bests(self, metric: str) -> tuple[np.ndarray, list[int]]:
        """Return the largest value of each run that has one, and its step."""
        found, steps = self._measured(metric), self.steps
        return np.array([np.nanmax(v) for v in found]), [steps[np.nanargmax(v)] for v in found]

    def _measured(self, metric: str) -> list[np.ndarray]:
        return [v for v in self.values(metric, self.steps) if not np.isnan(v).all()]


class Origin(NamedTuple):
    """The data that a run of an experiment learned from."""

    task: str
    demonstrations: int
    mixture: tuple[int, ...]
    """Number of offline episodes of each of `SOURCES`."""
    subsample: int
    fragment: int | None = None
    """Steps of the pieces that the expert's offline episodes were cut into."""


@dataclass(frozen=True, eq=False)
class RunRecord:
    """All that a run folder says about its runs."""

    path: Path
    config: Mapping[str, Any]
    rows: Sequence[Row]
    failures: Mapping[int, str]
    damage: str | None = None
    """The reason why failures are unknown, if they are."""
    origins: Sequence[Origin] = ()
    """One for each run, if an experiment made the folder; otherwise none."""

    @property
    def name(self) -> str:
        """The folder's own name, also for `.` and `..`."""
        return self.path.name or self.path.resolve().name

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        return self.config["run"]["runs"]

    @property
    def about(self) -> Mapping[str, Any]:
        return self.config["about"] or {}

    @property
    def settings(self) -> Mapping[str, Any]:
        """The recipe as plain data; empty if `lobsdice train` did not make the folder."""
        return self.about.get("settings", {})

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprint of each dataset."""
        return [data["fingerprint"] for data in self.config["run"]["data"]]

    @property
    def named(self) -> dict[str, Any]:
        """The task or the files of the data, under the names of the options of `train`."""
        if self.origins:
            distinct = (list(dict.fromkeys(column)) for column in zip(*self.origins, strict=True))
            found = zip(Origin._fields, distinct, strict=True)
            return {key: values[0] if len(values) == 1 else values for key, values in found}
        task, files = ("task", "demonstrations", "mixture"), ("expert", "offline", "labelled")
        keys = task if self.settings.get("task") else files
        found = {key: self.settings.get(key) for key in keys}
        if spec := BUILT_IN.get(self.settings.get("task") or ""):
            mixture = zip(spec.sources, self.settings["mixture"], strict=False)
            return found | {"mixture": dict(mixture)}
        return found

    @property
    def algorithms(self) -> list[str]:
        return list(dict.fromkeys(run["algorithm"]["name"] for run in self.runs))

    @property
    def planned(self) -> int:
        """The number of gradient steps that each run is to take."""
        return self.runs[0]["options"]["steps"]

    @property
    def done(self) -> int:
        """The last step that has rows."""
        return max((row["step"] for row in self.rows), default=0)

    @property
    def finished(self) -> bool:
        return self.done >= self.planned

    @property
    def environment(self) -> str | None:
        """The environment of the evaluations; None if there was none, or more than one."""
        task = self.named.get("task")
        return task if isinstance(task, str) else self.settings.get("env")

    @property
    def metrics(self) -> list[str]:
        """The columns of metrics.csv that were measured."""
        return list(dict.fromkeys(key for row in self.rows for key in measured(row)))

    @cached_property
    def variants(self) -> list[Variant]:
        """The runs, grouped by everything but the random seed and an experiment's draw of data."""
        groups: dict[str, list[int]] = {}
        for number in range(len(self.runs)):
            groups.setdefault(str(self._flat(number) | {"seed": None}), []).append(number)
        flat = [self._flat(numbers[0]) for numbers in groups.values()]
        return [
            Variant(label, [row for row in self.rows if row["run"] in numbers], numbers)
            for label, numbers in zip(labels(flat, self.name), groups.values(), strict=True)
        ]

    def _flat(self, number: int) -> dict[str, Any]:
        """Return all settings of one run, and its origin in place of the number of its dataset."""
        flat = flatten(self.runs[number])
        if not self.origins:
            return flat
        origin = self.origins[number]
        told = origin._asdict() | {"mixture": "/".join(map(str, origin.mixture))}
        return {key: value for key, value in flat.items() if key != "data"} | told


def read_run(path: Path) -> RunRecord:
    """Read a run folder; raise only if there is nothing to report on."""
    folder = RunFolder(path)
    config, rows = folder.config(), folder.rows()
    try:
        failures, damage = folder.failures(), None
    except LobsDICEError as error:
        failures, damage = {}, str(error)
    return RunRecord(path, config, rows, failures, damage, origins_of(path, config))


def origins_of(path: Path, config: Mapping[str, Any]) -> list[Origin]:
    """Read the origins that an experiment wrote; none if another program made the folder."""
    try:
        found = [
            Origin(
                t["environment"],
                t["demonstrations"],
                tuple(t["mixture"]),
                t["subsample"],
                t.get("fragment"),
            )
            for t in json.loads((path / TRIALS).read_text())
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return found if len(found) == len(config["run"]["runs"]) else []


def labels(flat: Sequence[Mapping[str, Any]], alone: str) -> list[str]:
    """Return a short label for each of several configurations, made of what differs."""
    if len(flat) == 1:
        return [alone]
    different = differences(flat)
    different.pop("seed", None)
    return [
        ", ".join(f"{key.split('.')[-1]} {values[i]}" for key, values in different.items())
        for i in range(len(flat))
    ]
