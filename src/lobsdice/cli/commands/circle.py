"""`lobsdice experiment circle`."""

from dataclasses import dataclass

from lobsdice.cli.arguments import Out
from lobsdice.cli.output import print_written


@dataclass(frozen=True)
class Circle:
    """Match states, or state pairs, on a ring: figure 3 of the paper.

    Writes circle.csv and a figure of it.

    Example:
        lobsdice experiment circle -o results
    """

    out: Out
    """Folder to write."""
    states: int = 12
    """Number of states of the ring."""
    gamma: float = 0.95
    """Discount."""
    alpha: float = 0.001
    """Weight of the regulariser, which keeps the policy near the behaviour policy."""

    def __call__(self) -> None:
        from lobsdice.experiments.circle import experiment

        print_written(experiment(self.out, states=self.states, gamma=self.gamma, alpha=self.alpha))
