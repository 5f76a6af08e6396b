"""`lobsdice report`: what came of a run, as one page to read or to mail."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional

from lobsdice.cli.arguments import readable
from lobsdice.data.files import atomic
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.report.findings import Source
    from lobsdice.report.recorded import Recorded


@dataclass(frozen=True)
class Report:
    """Write what came of a run to one HTML page that needs nothing else.

    Learning curves, scores, which recordings were imitated, whether they cover the demonstrations,
    a clip, and how to repeat it all. With --compare: several runs side by side.

    Example:
        lobsdice report runs/mine
        lobsdice report runs/mine -o mine.html --env Hopper-v5
        lobsdice report runs/mine --compare runs/* -o runs.html
    """

    folder: Positional[Path]
    """The folder that `lobsdice train` has written."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The page to write (default: report.html in the folder)."""
    compare: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FOLDER...")] = ()
    """Other runs to put side by side with this one."""
    env: str | None = None
    """A Gymnasium id or a built-in task for the clip (default: what the run was evaluated in)."""
    no_audit: bool = False
    """Do not hold the demonstrations against the recordings; with large ones that takes a while."""
    no_clip: bool = False
    """Do not film the policy."""

    def run(self) -> None:
        from lobsdice.report.recorded import recorded

        out = self.out or self.folder / ("comparison.html" if self.compare else "report.html")
        run = recorded(self.folder)
        page = self.comparison(run) if self.compare else self.report(run)
        with atomic(out) as temporary:
            temporary.write_text(page, encoding="utf-8")
        print(f"wrote {out}")

    def report(self, run: "Recorded") -> str:
        """The page of one run."""
        from lobsdice.report.findings import gather
        from lobsdice.report.run_page import page

        found = gather(
            run,
            source_of(run),
            environment=self.env or run.environment,
            with_audit=not self.no_audit,
            with_clip=not self.no_clip,
        )
        return page(found)

    def comparison(self, run: "Recorded") -> str:
        """The page of several runs."""
        from lobsdice.report.compare_page import page
        from lobsdice.report.recorded import recorded

        runs = {self.folder.resolve(): run}
        for folder, other in readable(self.compare, recorded).items():
            runs.setdefault(folder.resolve(), other)
        if len(runs) < 2:
            raise LobsDICEError(f"there is no other run to compare {self.folder} with")
        return page(list(runs.values()))


def source_of(run: "Recorded") -> "Source | str":
    """What the run learned from, read again; or why that cannot be done."""
    from lobsdice.cli.commands.train import from_plain
    from lobsdice.report.findings import Source

    if not run.settings:
        return "the run was not made by `lobsdice train`, and does not say where its data lies"
    try:
        settings = from_plain(run.settings)
    except LobsDICEError as error:
        return str(error)
    try:
        recordings = settings.recordings()
        fleet = settings.fleet(settings.preparation(*recordings))
    except LobsDICEError as error:
        return f"the data cannot be read again: {error}"
    file = Path(settings.offline[0]).name if len(settings.offline) == 1 else None
    return Source(recordings.expert, recordings.offline, fleet, file)
