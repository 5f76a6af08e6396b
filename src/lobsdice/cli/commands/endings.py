"""`lobsdice experiment endings`."""

from dataclasses import dataclass, field

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written
from lobsdice.executors.options import Where
from lobsdice.experiments.endings.settings import Choice, Settings


@dataclass(frozen=True)
class Endings:
    """Success rates of policies in eight worlds that end in success or failure.

    Writes scores.csv, summary.csv, aggregate.csv, comparisons.csv, tables.md and a figure. The
    grids are also solved exactly. The same command continues an interrupted experiment. Finished
    runs are not repeated, so the parts of a large table can be run one by one.

    Example:
        lobsdice experiment endings --jobs 6 -o results/endings
        lobsdice experiment endings --terminal restart stay keep -o readings
        lobsdice experiment endings --worlds grid reach --steps 5000 --ratio-penalty 0.01 -o quick
    """

    out: Out
    """Folder to write. Runs that are finished there are not repeated."""
    jobs: int | None = None
    """Number of fleets to train at the same time. A fleet is the runs of one algorithm and shape,
    and does not fill a large GPU. Without it, one on this machine, and on a cluster as many as it
    has room for. If there are several, each is a process that writes log.txt in its folder."""
    exact: bool = True
    """Solve the grids exactly as well."""
    choice: Choice = field(default_factory=Choice)
    settings: Settings = field(default_factory=Settings)
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        from lobsdice.experiments.endings.experiment import experiment

        executor = self.where.executor(self.out, self.jobs)
        paths = experiment(
            self.choice, self.settings, self.out, executor=executor, exact=self.exact
        )
        print_written(paths)
