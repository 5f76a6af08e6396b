"""`lobsdice report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from lobsdice import console
from lobsdice.cli.arguments import Page, readable
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.report.run_record import RunRecord


@dataclass(frozen=True)
class Report:
    """Write one self-contained HTML page about a run folder.

    The page has learning curves, scores, the weight of each recorded episode, the coverage of the
    demonstrations, a clip of the policy, and the settings and versions to repeat the run. Or, with
    several folders, it compares their runs. Of a sweep, it shows all settings and what matters.

    Example:
        lobsdice report runs/mine
        lobsdice report runs/mine -o mine.html --env Hopper-v5
        lobsdice report runs/mine --compare runs/* -o runs.html
        lobsdice report sweeps/mine
    """

    folder: Positional[Path]
    """Run folder that `lobsdice train` has written, or the folder of a sweep."""
    out: Page = None
    """Page to write. Without it, report.html in the run folder (comparison.html with --compare)."""
    compare: Annotated[tuple[Path, ...], arg(metavar="FOLDER...")] = ()
    """Other run folders, to compare with this one."""
    env: str | None = None
    """Gymnasium id or built-in task for the clip. Without it, the environment of the evaluations
    during training."""
    no_audit: bool = False
    """Leave out the coverage of the demonstrations, which takes a while for large files."""
    no_clip: bool = False
    """Leave out the clip."""

    def __call__(self) -> None:
        from lobsdice.report import sweep_page
        from lobsdice.report.html import write_page
        from lobsdice.report.run_record import read_run

        out = self.out or self.folder / ("comparison.html" if self.compare else "report.html")
        if sweep_page.is_sweep(self.folder):
            write_page(out, sweep_page.page(self.folder))
            return console.show(f"wrote {out}")
        run = read_run(self.folder)
        write_page(out, self.comparison(run) if self.compare else self.report(run))
        console.show(f"wrote {out}")

    def report(self, run: "RunRecord") -> str:
        """Return the page of one run folder."""
        from lobsdice.report import run_page
        from lobsdice.report.gather import gather

        found = gather(
            run,
            environment=self.env,
            with_audit=not self.no_audit,
            with_clip=not self.no_clip,
        )
        return run_page.page(found)

    def comparison(self, run: "RunRecord") -> str:
        """Return the page of several run folders."""
        from lobsdice.report import compare_page
        from lobsdice.report.run_record import read_run

        runs = {self.folder.resolve(): run}
        for folder, other in readable(self.compare, read_run).items():
            runs.setdefault(folder.resolve(), other)
        if len(runs) < 2:
            raise LobsDICEError(f"there is no other run to compare {self.folder} with")
        return compare_page.page(list(runs.values()))
