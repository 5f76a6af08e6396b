"""The choice among runs, and among the checkpoints of a run, by offline measures alone.

There are two criteria. The first is the rehearsal of the policy in a world that is learned from the
logs (`training.rehearsal`). The second is the policy's error on the demonstrations: the distance of
its actions there from those that `diagnostics.infer_actions` finds in the logs. Both look at the
policy itself and not at the losses of its training. So runs with any hyperparameters and algorithms
can be compared. docs/select.md says how far to trust them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.errors import LobsDICEError
from lobsdice.training.checkpoint import METRICS
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Row

#: The column of metrics.csv with the error on the demonstrations; smaller is better.
CRITERION = "demonstration_error"
#: The column with the score of a rehearsal, of runs that keep policies by it; larger is better.
REHEARSAL = "rehearsal"
#: The column with 1 for policies that their rehearsal recommends, and 0 for others.
RECOMMENDED = "recommended"
#: Other columns that are reported, if the algorithm logs them.
BESIDE = ("action_error", "expert_distance", "flow_residual", "effective_share")
#: The columns that are read. Returns and scores are not among them.
COLUMNS = ("step", "run", "seed", CRITERION, REHEARSAL, RECOMMENDED, *BESIDE)

#: The rows on which a run was measured: the data's fingerprint, and True if rows were held out.
MeasuredOn = tuple[str, bool | None]


@dataclass(frozen=True)
class Candidate:
    """A run at one of its checkpoints."""

    folder: Path
    run: int
    seed: int
    step: int
    criterion: float
    """Smaller is better; infinite if unknown."""
    beside: dict[str, float]
    """Other measures, which do not decide."""
    last: bool
    """True for the run's last checkpoint so far."""
    policy: Path | None
    """The file of the policy, if the policy of this step is kept."""

    def report(self) -> dict[str, Any]:
        """The candidate as plain data."""
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
    """The candidates of a run folder."""

    measured_on: dict[MeasuredOn, str]
    """The rows that its runs were measured on, each with the words for one such run."""
    candidates: list[Candidate]


def badness(row: Row) -> float:
    """The measure by which a run keeps its `selected` policy; smaller is better."""
    found = row[CRITERION]
    if REHEARSAL in row:  # recommended policies first, as `Verdict.rank` has it
        found = 2 - row[REHEARSAL] - row[RECOMMENDED]
    return float(found) if math.isfinite(found) else math.inf


def select(
    folders: str | Path | Iterable[str | Path], *, checkpoints: bool = False
) -> list[Candidate]:
    """Rank the runs of folders by their error on the demonstrations, the best first.

    Each run is ranked at its last checkpoint, or with `checkpoints` at every one. `rehearse` is
    the better criterion.

    Only offline measures count: returns and scores are not read. The runs must have learned from
    the same rows, because measures on different rows do not compare. Of each run, training keeps
    two policies that this may choose: the last one, and the `selected` one, of least error.
    """
    paths = [folders] if isinstance(folders, str | PathLike) else folders
    return rank([choice(Path(folder)) for folder in paths], checkpoints=checkpoints)


def choice(path: Path) -> Choice:
    """Read the candidates of a run folder."""
    folder = RunFolder(path)
    measured_on = _measured_on(folder)
    _refuse_other_rows(measured_on)
    return Choice(measured_on, _candidates(folder))


def rank(choices: Sequence[Choice], *, checkpoints: bool = False) -> list[Candidate]:
    """Rank the candidates of all folders, the best first.

    It ranks each run at its last checkpoint, or with `checkpoints` at every one.
    """
    if not choices:
        raise LobsDICEError("there is nothing to choose from: name one or more run folders")
    _refuse_other_rows({rows: run for one in choices for rows, run in one.measured_on.items()})
    found = [c for one in choices for c in one.candidates if c.last or checkpoints]
    # As in training, the later of equally good checkpoints comes first.
    return sorted(found, key=lambda candidate: (candidate.criterion, -candidate.step))


def _measured_on(folder: RunFolder) -> dict[MeasuredOn, str]:
    config = folder.config()["run"]
    return {
        (config["data"][run["data"]]["fingerprint"], run["options"].get("hold_out")): (
            f"run {i} of {folder.path}"
        )
        for i, run in enumerate(config["runs"])
    }


def _refuse_other_rows(measured_on: Mapping[MeasuredOn, str]) -> None:
    """Raise unless all runs were measured on the same rows."""
    if len(measured_on) > 1:
        one, other, *_ = measured_on.values()
        raise LobsDICEError(
            f"{one} and {other} cannot be compared, because they were measured on different rows: "
            "they learned from different data, or only one held rows out"
        )


def _candidates(folder: RunFolder) -> list[Candidate]:
    """Every run of a folder at every logged step."""
    runs: dict[int, list[Row]] = {}
    for row in folder.rows():
        runs.setdefault(row["run"], []).append({k: row[k] for k in COLUMNS if k in row})
    if not runs:
        raise LobsDICEError(
            f"{folder.path} has no metrics yet: training stopped before its first checkpoint"
        )
    return [candidate for rows in runs.values() for candidate in _of_run(folder, rows)]


def _of_run(folder: RunFolder, rows: Sequence[Row]) -> list[Candidate]:
    errors = [_error(folder, row) for row in rows]
    bad = [badness(row) for row in rows]
    least = max(i for i, value in enumerate(bad) if value == min(bad))
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
