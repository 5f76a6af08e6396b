"""`lobsdice evaluate`."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Which, environment_of, policies_of
from lobsdice.environments.evaluate import summaries, warn_of_bounds


@dataclass(frozen=True)
class Evaluate:
    """Measure the returns of trained policies in an environment.

    Example:
        lobsdice evaluate runs/hopper --episodes 20
        lobsdice evaluate runs/mine --env Hopper-v5 --stochastic --json
    """

    path: Positional[Path]
    """Run folder, or policy file."""
    env: str | None = None
    """Gymnasium id or built-in task. Without it, the environment of the evaluations during
    training."""
    episodes: int = 20
    """Episodes per policy."""
    seed: int = 0
    """Random seed. An episode depends on this seed and on the policy, and on nothing else."""
    which: Which = "last"
    """Policy of each run: the one of the last step, of the best return, or the one that was
    selected offline."""
    stochastic: bool = False
    """Sample actions from the policy instead of taking the likeliest."""
    json: bool = False
    """Print JSON instead of a table."""

    def __call__(self) -> None:
        policies = policies_of(self.path, self.which)
        env = self.env or environment_of(self.path)
        several = list(policies.values())
        with console.waiting("Evaluating"):
            warn_of_bounds(several, [env] * len(several))
            found = summaries(
                several,
                env,
                episodes=self.episodes,
                seed=self.seed,
                stochastic=self.stochastic,
            )
        facts = ({"run": run, "episodes": self.episodes} for run in policies)
        reports = [fact | report for fact, report in zip(facts, found, strict=True)]
        if self.json:
            return output.print_json(reports)
        for report in reports:
            output.print_facts(f"{self.path}, {self.which} policy, in {env}", report)
