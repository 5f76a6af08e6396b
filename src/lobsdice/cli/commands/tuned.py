"""`lobsdice experiment tuned`."""

from dataclasses import dataclass, field

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written
from lobsdice.executors.options import Where
from lobsdice.experiments.tuned import Tuning


@dataclass(frozen=True)
class Tuned:
    """One of three settings for each method, chosen without returns as `lobsdice select` does.

    Writes measures.csv, tuned.csv, gains.csv and tables.md: what the chosen policies are worth,
    beside those of the defaults and the best ones. The same command continues an interrupted
    experiment, and parts of it can be run one by one into the same folder.

    Example:
        lobsdice experiment tuned --jobs 6 -o results/methods/tuned
        lobsdice experiment tuned --worlds reach --seeds 2 --steps 5000 -o quick
    """

    out: Out
    """Folder to write. Runs that are finished there are not repeated."""
    jobs: int | None = None
    """Number of fleets to train at the same time; see `lobsdice experiment endings`."""
    tuning: Tuning = field(default_factory=Tuning)
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        from lobsdice.experiments.tuned import experiment

        executor = self.where.executor(self.out, self.jobs)
        print_written(experiment(self.tuning, self.out, executor=executor))
