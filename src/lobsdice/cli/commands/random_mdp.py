"""`lobsdice experiment random-mdp`."""

from dataclasses import dataclass

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.random_mdp.settings import Settings

DEFAULTS = Settings()


@dataclass(frozen=True)
class RandomMDP:
    """Learn from observation in random MDPs: figures 1 and 4 of the paper.

    Writes random_mdp.csv and figures of it. The same command continues an interrupted experiment.

    Example:
        lobsdice experiment random-mdp --seeds 1000 -o results
        lobsdice experiment random-mdp --seeds 20 --betas 1 --experts 1000 -o quick
    """

    out: Out
    """Folder to write."""
    seeds: int = 1000
    """Number of random MDPs, each with its own data."""
    workers: int | None = None
    """Number of processes. Without it there is one per processor."""
    settings: Settings = DEFAULTS

    def __call__(self) -> None:
        from lobsdice.experiments.random_mdp.experiment import experiment

        if self.workers is not None and self.workers < 1:
            raise LobsDICEError(f"--workers must be at least 1, but is {self.workers}")
        print_written(experiment(self.settings, self.seeds, self.out, workers=self.workers))
