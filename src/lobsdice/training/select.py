"""Choosing among runs, and among the checkpoints of a run, by offline measures alone.

The criterion is the error of the policy on the demonstrations: how far its actions there are from
those that recordings took to move in the same way (`diagnostics.infer_actions`). It looks at the
policy itself, where the expert goes, and not at what the training of a run says of itself; so runs
compare whatever their hyperparameters and algorithms. docs/select.md says how far to trust it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.errors import LobsDICEError
from lobsdice.training.folder import METRICS, RunFolder
from lobsdice.training.loggers import Row

#: The column of metrics.csv that decides: the smaller, the better.
CRITERION = "demonstration_error"
#: What is told beside it, of the algorithms that log it.
BESIDE = ("action_error", "expert_distance", "flow_residual", "effective_share")
#: All that is looked at: returns and scores are not.
COLUMNS = ("step", "run", "seed", CRITERION, *BESIDE)

#: What tells the rows of a measure from others: the data's fingerprint, and what is held out of it.
Source = tuple[str, bool | None]


@dataclass(frozen=True)
class Candidate:
    """A run at one of its checkpoints."""

    folder: Path
    run: int
    seed: int
    step: int
    criterion: float
    """The smaller, the better; infinite where it cannot be told."""
    beside: dict[str, float]
    """Other measures, which do not decide."""
    last: bool
    """Whether it is the run's last checkpoint so far."""
    policy: Path | None
    """The file of the policy, if that of this step is kept."""

    def report(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "folder": str(self.folder),
            "run": self.run,
            "seed": self.seed,
            "step": self.step,
            CRITERION: self.criterion,
            **self.beside,
            "policy": self.policy and str(self.policy),
        }


class Choice(NamedTuple):
    """What a folder has to choose from."""

    measured_on: dict[Source, str]
    """The rows that its runs were measured on, and one of the runs."""
    candidates: list[Candidate]


def select(folders: Iterable[str | Path], *, checkpoints: bool = False) -> list[Candidate]:
    """The runs of some folders at their last checkpoints, or at all of them, the best first.

    By offline measures alone: no return or score is looked at. The runs must have learned from
    the same rows, as measures on other rows do not compare. Of each run two policies are kept that
    this may lead to: the last, and the `selected` one, of the step at which its error was least.
    """
    return rank([choice(Path(folder)) for folder in folders], checkpoints=checkpoints)


def choice(path: Path) -> Choice:
    """What a folder has to choose from; it is read once."""
    folder = RunFolder(path)
    measured_on = _measured_on(folder)
    _refuse_other_rows(measured_on)
    return Choice(measured_on, _candidates(folder))


def rank(choices: Sequence[Choice], *, checkpoints: bool = False) -> list[Candidate]:
    """The candidates of all folders at their last checkpoints, or at all, the best first."""
    if not choices:
        raise LobsDICEError("there is nothing to choose from: name the folders of runs")
    _refuse_other_rows({rows: run for one in choices for rows, run in one.measured_on.items()})
    found = [c for one in choices for c in one.candidates if c.last or checkpoints]
    # As in training: of equally good checkpoints the later one is kept.
    return sorted(found, key=lambda candidate: (candidate.criterion, -candidate.step))


def _measured_on(folder: RunFolder) -> dict[Source, str]:
    config = folder.config()["run"]
    return {
        (config["data"][run["data"]]["fingerprint"], run["options"].get("hold_out")): (
            f"run {i} of {folder.path}"
        )
        for i, run in enumerate(config["runs"])
    }


def _refuse_other_rows(measured_on: Mapping[Source, str]) -> None:
    """Raise unless all runs were measured on the same rows."""
    if len(measured_on) > 1:
        one, other, *_ = measured_on.values()
        raise LobsDICEError(
            f"{one} and {other} learned from different data, or held other rows out; measures on "
            "different rows do not compare"
        )


def _candidates(folder: RunFolder) -> list[Candidate]:
    """Every run of a folder at every step that was logged."""
    runs: dict[int, list[Row]] = {}
    for row in folder.rows():
        runs.setdefault(row["run"], []).append({k: row[k] for k in COLUMNS if k in row})
    if not runs:
        raise LobsDICEError(f"{folder.path} has not been evaluated yet")
    return [candidate for rows in runs.values() for candidate in _of_run(folder, rows)]


def _of_run(folder: RunFolder, rows: Sequence[Row]) -> list[Candidate]:
    errors = [_error(folder, row) for row in rows]
    least = max(i for i, error in enumerate(errors) if error == min(errors))
    last = len(rows) - 1
    return [
        Candidate(
            folder=folder.path,
            run=row["run"],
            seed=row["seed"],
            step=row["step"],
            criterion=errors[i],
            beside={name: float(row[name]) for name in BESIDE if name in row},
            last=i == last,
            policy=_kept(folder, row["run"], {least: "selected", last: "last"}.get(i)),
        )
        for i, row in enumerate(rows)
    ]


def _error(folder: RunFolder, row: Row) -> float:
    if CRITERION not in row:
        raise LobsDICEError(
            f"{folder.path / METRICS} has no {CRITERION} at step {row['step']}: it was written by "
            "an earlier version"
        )
    value = float(row[CRITERION])
    return value if math.isfinite(value) else math.inf


def _kept(folder: RunFolder, run: int, which: str | None) -> Path | None:
    path = folder.policy_path(which, run) if which else None
    return path if path and path.exists() else None
