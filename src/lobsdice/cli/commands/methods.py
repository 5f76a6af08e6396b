"""`lobsdice experiment methods`."""

from dataclasses import dataclass, field

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written
from lobsdice.executors.options import Where
from lobsdice.experiments.methods import Extent


@dataclass(frozen=True)
class Methods:
    """All methods, old and new, on all kinds of tasks, in one table.

    The kinds are worlds that end, logs that are hard to learn from, and the tasks like the paper's.
    Writes methods.csv, leads.csv and tables.md. The same command continues an interrupted
    experiment, and parts of it can be run one by one into the same folder.

    Example:
        lobsdice experiment methods --jobs 6 -o results/methods
        lobsdice experiment methods --kinds endings --worlds reach grid --seeds 2 -o quick
    """

    out: Out
    """Folder to write. Runs that are finished there are not repeated."""
    jobs: int | None = None
    """Number of fleets to train at the same time; see `lobsdice experiment endings`."""
    extent: Extent = field(default_factory=Extent)
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        from lobsdice.experiments.methods import experiment

        executor = self.where.executor(self.out, self.jobs)
        print_written(experiment(self.extent, self.out, executor=executor))
