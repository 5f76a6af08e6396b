"""`lobsdice select`: which run to take, without an environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional

from lobsdice.cli import output
from lobsdice.cli.arguments import readable
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.training.select import Choice

#: Of the other measures those for which 80 columns have room; --json has more.
SHOWN = ("action_error", "effective_share")

Folders = Annotated[
    tuple[Path, ...], tyro.conf.arg(metavar="FOLDER...", help_behavior_hint="(one or more)")
]


@dataclass(frozen=True)
class Select:
    """Rank trained runs without an environment: returns are not looked at.

    What decides is how far a policy's actions at demonstrated states are from those that the
    recordings took to move in the same way.

    Example:
        lobsdice select runs/*
        lobsdice select runs/a runs/b --checkpoints --top 10 --json
    """

    folders: Positional[Folders]
    """Folders of runs that were trained on the same data."""
    checkpoints: bool = False
    """Rank all steps that were logged, not only the last of each run."""
    top: int | None = None
    """Show so many at most (default: all)."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from lobsdice.training.select import CRITERION, rank

        if self.top is not None and self.top < 1:
            raise LobsDICEError(f"--top is {self.top}; it must be at least 1")
        found = rank(self.choices(), checkpoints=self.checkpoints)
        reports = [candidate.report() for candidate in found[: self.top]]
        if self.json:
            return output.print_json(reports)
        shown = [name for name in SHOWN if any(name in report for report in reports)]
        columns = ("folder", "run", "seed", "step", CRITERION, *shown)
        output.print_rows([{k: report.get(k, "-") for k in columns} for report in reports], columns)
        best, kept = found[0], next((candidate for candidate in found if candidate.policy), None)
        if kept is not best:
            print(f"of run {best.run} of {best.folder} at step {best.step} no policy is kept")
        if kept is not None:
            print(f"take {kept.policy}, of step {kept.step}")

    def choices(self) -> list["Choice"]:
        """What the folders that hold runs have to choose from; one alone must hold some."""
        from lobsdice.training.select import choice

        if len(self.folders) == 1:
            return [choice(self.folders[0])]
        return list(readable(self.folders, choice).values())
