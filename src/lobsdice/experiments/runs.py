"""The sizes of runs in experiments on several kinds of tasks; light to import."""

from dataclasses import dataclass

from lobsdice.experiments.control.grid import Plan
from lobsdice.experiments.endings.settings import Settings


@dataclass(frozen=True)
class Runs:
    """The seeds and sizes of all runs, on worlds that end and on other tasks."""

    seeds: int = 5
    """Runs with the seeds 0, 1, ..., each with demonstrations and logs of its own."""
    steps: int = 100_000
    """Gradient steps of a run."""
    endings_steps: int = 20_000
    """Gradient steps of a run in the worlds that end."""
    every: int | None = None
    """Steps between evaluations (default: half of the steps in the worlds that end, elsewhere about
    a fiftieth)."""
    episodes: int = 100
    """Episodes of an evaluation in the worlds that end; elsewhere ten."""
    batch_size: int = 512
    """Batch size: rows of each part of the data in a step."""
    set: tuple[str, ...] = ()
    """Hyperparameters such as width=64, for every method that has them: for a small part of the
    table."""

    def settings(self) -> Settings:
        """The settings of runs in the worlds that end."""
        return Settings(
            steps=self.endings_steps,
            every=self.every or max(1, self.endings_steps // 2),
            episodes=self.episodes,
            batch_size=self.batch_size,
            set=self.set,
        )

    def plan(self) -> Plan:
        """The settings of runs on other tasks."""
        return Plan(steps=self.steps, batch_size=self.batch_size, every=self.every, set=self.set)
