"""`lobsdice data collect`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from lobsdice.cli import output
from lobsdice.cli.arguments import Out
from lobsdice.data.description import describe


@dataclass(frozen=True)
class Collect:
    """Record episodes of a built-in task: hopper, walker2d, halfcheetah or ant.

    Writes expert.npz, medium.npz and random.npz. The same seed gives the same files.

    Example:
        lobsdice data collect hopper --expert 105 --medium 500 --random 500 --out hopper
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """Built-in task: hopper, walker2d, halfcheetah or ant."""
    out: Out
    """Folder to write."""
    expert: int = 105
    """Episodes of the expert policy."""
    medium: int = 500
    """Episodes of a policy of medium quality."""
    random: int = 500
    """Episodes of uniformly random actions."""
    seed: int = 0
    """Random seed. An episode depends on this seed and on its own number, and on nothing else."""
    workers: int | None = None
    """Number of processes. Without it there is one per processor."""
    json: bool = False
    """Print JSON instead of tables."""

    def __call__(self) -> None:
        from lobsdice.environments.tasks.collect import collect, save

        counts = {"expert": self.expert, "medium": self.medium, "random": self.random}
        collected = collect(self.task, counts, seed=self.seed, workers=self.workers)
        paths = save(self.out, collected)
        reports = [
            {"path": str(path), **describe(episodes)}
            for path, episodes in zip(paths, collected.values(), strict=True)
        ]
        if self.json:
            return output.print_json(reports)
        output.print_summary(reports)
        print(f"wrote {self.out}")
