"""`lobsdice select`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import readable
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.training.select import Choice

#: Measures in the table besides the criterion: 80 columns have room for these; --json has more.
SHOWN = ("action_error", "effective_share")

Folders = Annotated[tuple[Path, ...], arg(metavar="FOLDER...", help_behavior_hint="(required)")]


@dataclass(frozen=True)
class Select:
    """Rank trained runs without an environment. Returns are not used.

    The criterion is how far the policy's actions at demonstrated states are from the actions that
    made the same movement in the offline data.

    Example:
        lobsdice select runs/*
        lobsdice select runs/a runs/b --checkpoints --top 10 --json
    """

    folders: Positional[Folders]
    """Run folders of runs that were trained on the same data."""
    checkpoints: bool = False
    """Rank every logged step of each run, not only the last."""
    top: int | None = None
    """Number of candidates to show. Without it all are shown."""
    json: bool = False
    """Print JSON instead of a table."""

    def __call__(self) -> None:
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
            console.show(f"run {best.run} of {best.folder} has no policy of step {best.step}")
        if kept is not None:
            console.show(f"take {kept.policy}, of step {kept.step}")

    def choices(self) -> "list[Choice]":
        """Read the folders and leave out those without runs; a single folder must have some."""
        from lobsdice.training.select import choice

        if len(self.folders) == 1:
            return [choice(self.folders[0])]
        return list(readable(self.folders, choice).values())
