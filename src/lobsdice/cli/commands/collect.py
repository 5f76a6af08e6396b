"""`lobsdice data collect`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Out
from lobsdice.data.description import describe

#: Episodes of the expert beyond those of the offline data, to be used as demonstrations.
DEMONSTRATIONS = 5


@dataclass(frozen=True)
class Collect:
    """Record episodes of a built-in task.

    Writes one file for each source of episodes, such as expert.npz and random.npz. Sources without
    a number have as many episodes as the task's offline data, and the expert five more, for
    demonstrations. The same seed gives the same files.

    Example:
        lobsdice data collect hopper --expert 105 --medium 500 --random 500 --out hopper
        lobsdice data collect reach --out reach
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """Built-in task: hopper, walker2d, halfcheetah, ant; or one that ends in success or failure:
    grid, reach, pointmaze, cartpole, each also with noise, such as reach-noisy."""
    out: Out
    """Folder to write."""
    expert: int | None = None
    """Episodes of the expert."""
    medium: int | None = None
    """Episodes of a policy of medium quality; for hopper, walker2d, halfcheetah and ant."""
    wrong: int | None = None
    """Episodes that go to a wrong goal; for grid, reach and pointmaze."""
    hasty: int | None = None
    """Episodes in too much haste, which mostly fail; for grid, reach and pointmaze."""
    leaning: int | None = None
    """Episodes in which the pole falls; for cartpole."""
    drifting: int | None = None
    """Episodes in which the cart runs off its track; for cartpole."""
    random: int | None = None
    """Episodes of uniformly random actions."""
    seed: int = 0
    """Random seed. An episode depends on this seed and on its own number, and on nothing else."""
    workers: int | None = None
    """Number of processes. Without it there is one per processor."""
    json: bool = False
    """Print JSON instead of tables."""

    def __call__(self) -> None:
        from lobsdice.environments.tasks.collect import collect, save

        collected = collect(self.task, self.counts(), seed=self.seed, workers=self.workers)
        paths = save(self.out, collected)
        reports = [
            {"path": str(path), **describe(episodes)}
            for path, episodes in zip(paths, collected.values(), strict=True)
        ]
        if self.json:
            return output.print_json(reports)
        output.print_summary(reports)
        console.show(f"wrote {self.out}")

    def counts(self) -> dict[str, int]:
        """Return the number of episodes of each source; sources that were not named follow."""
        from lobsdice.environments.tasks.table import BUILT_IN, spec_of

        usual = dict(spec_of(self.task).offline)
        usual["expert"] += DEMONSTRATIONS
        sources = dict.fromkeys(source for spec in BUILT_IN.values() for source in spec.sources)
        given = {source: getattr(self, source) for source in sources}
        return usual | {source: n for source, n in given.items() if n is not None}
