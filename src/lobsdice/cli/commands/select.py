"""`lobsdice select`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Folders, readable
from lobsdice.cli.commands.rehearse import check_counts, print_ranking, rows_of
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.training.select import Choice

#: Measures in the table of --by error besides the criterion: 80 columns have room for these.
SHOWN = ("action_error", "effective_share")
#: Characters that the columns of that table take besides the folder.
WIDTH = 60
#: The exit code if no policy should be deployed.
NONE_WORKS = 3


@dataclass(frozen=True)
class Select:
    """Choose among trained policies without an environment. Returns are not used.

    Every policy is rehearsed in a world that is learned from the logs. If `lobsdice rehearse` did
    that for all of these folders at once, its results decide.
    The folders may differ in algorithms and options, but must have the same recordings. If no
    policy is likely to work, the command says so and exits with the code 3.

    Example:
        lobsdice select runs/*
        lobsdice select runs/a runs/b --by error --checkpoints --top 10 --json
    """

    folders: Positional[Folders]
    """Run folders of runs that were trained on the same recordings."""
    by: Literal["rehearsal", "error"] = "rehearsal"
    """The criterion: the rehearsal, or the error of the policy's actions at demonstrated states,
    which takes no time but tells less."""
    steps: int | None = None
    """Gradient steps of learning the world. Without it 6000, or a world that a folder keeps."""
    checkpoints: bool = False
    """Rank every logged step of each run, not only the last. It needs --by error."""
    top: int | None = None
    """Number of candidates to show. Without it all are shown."""
    json: bool = False
    """Print JSON instead of a table."""

    def __call__(self) -> None:
        check_counts(top=self.top, steps=self.steps)
        if self.checkpoints and self.by != "error":
            raise LobsDICEError(
                "--checkpoints needs --by error: policies of other steps are not kept; "
                "`lobsdice train --keep selected` rehearses every checkpoint"
            )
        try:
            self.by_error() if self.by == "error" else self.by_rehearsal()
        except LobsDICEError:
            if self.json:  # a program that reads the answer finds an empty list
                output.print_json([])
            raise

    def by_rehearsal(self) -> None:
        """Print the ranking and three sentences; exit with 3 if no policy is likely to work."""
        from lobsdice.training.rehearsal.folders import known_outcome, rehearse_folders
        from lobsdice.training.rehearsal.verdict import explain

        runs = self._runs()
        world, ranked = known_outcome(runs, steps=self.steps) or rehearse_folders(
            runs, steps=self.steps
        )
        if self.json:
            output.print_json(rows_of(ranked[: self.top]))
        else:
            print_ranking(ranked[: self.top])
            verdicts = [(path / kept.policy, kept.verdict) for path, kept in ranked]
            for sentence in explain(verdicts, world["quality"]):
                console.show(sentence)
        if not ranked[0][1].verdict.works:
            raise SystemExit(NONE_WORKS)

    def _runs(self) -> list[Path]:
        """Return the folders that hold policies, and say which are left out."""
        from lobsdice.training.rehearsal.folders import policy_files

        if len(self.folders) == 1:
            return list(self.folders)
        return list(readable(self.folders, policy_files))

    def by_error(self) -> None:
        """Print the ranking by the error on the demonstrations."""
        from lobsdice.training.select import CRITERION, rank

        found = rank(self.choices(), checkpoints=self.checkpoints)
        reports = [candidate.report() for candidate in found[: self.top]]
        if self.json:
            return output.print_json(reports)
        shown = [name for name in SHOWN if any(name in report for report in reports)]
        columns = ("folder", "run", "seed", "step", CRITERION, *shown)
        folders = output.name_folders([report["folder"] for report in reports], WIDTH)
        rows = zip(reports, folders, strict=True)
        output.print_rows(
            [dict.fromkeys(columns, "-") | r | {"folder": f} for r, f in rows], columns
        )
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
