"""`lobsdice experiment ablation`."""

from dataclasses import dataclass, field

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written
from lobsdice.executors.options import Where
from lobsdice.experiments.ablation import Extent


@dataclass(frozen=True)
class Ablation:
    """The worth of each departure from the paper, in one table.

    Trains LobsDICE with its defaults, with each departure undone, with the paper's settings, and
    with these and each departure alone. Writes ablation.csv, means.csv, tasks.csv, tables.md and a
    figure. The same command continues an interrupted experiment, and parts of it can be run one by
    one into the same folder.

    Example:
        lobsdice experiment ablation --jobs 6 -o results/ablation
        lobsdice experiment ablation --kinds endings --worlds grid --departures averaged -o quick
    """

    out: Out
    """Folder to write. Runs that are finished there are not repeated."""
    jobs: int | None = None
    """Number of fleets to train at the same time; see `lobsdice experiment endings`."""
    extent: Extent = field(default_factory=Extent)
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        from lobsdice.experiments.ablation import experiment

        executor = self.where.executor(self.out, self.jobs)
        print_written(experiment(self.extent, self.out, executor=executor))
