"""Why ReCOIL does not succeed in worlds that end: its scores, and where its weights lie.

    python benchmarks/recoil_scores.py [--world reach] [--steps 5000]

It trains ReCOIL, whose demonstrations have actions, and our state-only form, and prints

- the largest score of a logged step: the exact solution has none above `best`;
- how far V rises from a step to the next beyond the cost of the step and the discount: 0 if exact;
- the share of the weights in cloning that lies near demonstrated states, and on steps of
  successful episodes;
- how often, near demonstrated states, a step of a successful episode weighs more than another's.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from scipy.spatial import KDTree
from scipy.stats import mannwhitneyu

from lobsdice.algorithms.recoil import ReCOIL, Scoring
from lobsdice.algorithms.recoilfo import ReCOILfO
from lobsdice.data.prepare import Data
from lobsdice.environments.evaluate import evaluate
from lobsdice.environments.tasks.task import load
from lobsdice.experiments.endings.worlds import successes
from lobsdice.training.engine import Options
from lobsdice.training.fleet import iterate, make_fleet

#: A state is near the demonstrations if it is as near as this share of the successful steps.
NEAR = 0.8


@dataclass(frozen=True)
class Probe:
    world: str = "reach"
    """A world that ends."""
    steps: int = 5000
    """Training steps."""
    width: int = 64
    """Units in each hidden layer."""
    batch_size: int = 128
    """Rows of a batch."""

    def run(self) -> None:
        task = load(self.world)
        returns = task.offline.returns()
        assert returns is not None  # collected episodes have rewards
        for algorithm in (ReCOIL(width=self.width), ReCOILfO(width=self.width)):
            data = task.labelled_data if algorithm.needs_labels else task.data
            options = Options(steps=self.steps, batch_size=self.batch_size)
            fleet = make_fleet(algorithm, data, 1, options)
            (after,) = iterate(fleet, every=self.steps)
            (found,) = evaluate(fleet.policies(after.state), [self.world], episodes=100)
            print(type(algorithm).__name__, f"success {successes(self.world, found).mean():.2f}")
            nets = jax.tree.map(lambda x: x[0], after.state.nets)
            assert data.episode is not None
            report(algorithm, nets, data, successes(self.world, returns)[data.episode])


def report(algorithm: Scoring, nets: Any, data: Data, won: np.ndarray) -> None:
    """Print the measures of one run."""
    rows = jax.tree.map(jnp.asarray, data.offline.take(np.arange(data.offline.size)))
    done = algorithm.done(nets.policy, rows, jax.random.key(0))
    scores = np.asarray(nets.target.least(rows.s, done))
    v, v_next = np.asarray(nets.value(rows.s)), np.asarray(nets.value(rows.s_next))
    rise = v - (algorithm.gamma * v_next - algorithm.cost)
    log_weight = np.asarray(algorithm.log_weights(nets, rows), np.float64)
    share = np.exp(log_weight - log_weight.max())
    share /= share.sum()
    distance = KDTree(data.expert.s).query(data.offline.s)[0]
    near = distance <= np.quantile(distance[won], NEAR)
    better = mannwhitneyu(log_weight[near & won], log_weight[near & ~won]).statistic
    pairs = (near & won).sum() * (near & ~won).sum()
    print(f"  largest score {scores.max():.0f}, best {algorithm.best:.0f}")
    print(f"  mean scores: successful {scores[won].mean():.0f}, others {scores[~won].mean():.0f}")
    print(f"  V above γ V(s') - cost: {rise.mean():.1f} on average, {rise.std():.1f} spread")
    print(f"  near demonstrated states: {near.mean():.2f} of all rows, {share[near].sum():.2f} of")
    print(f"    the weight; on successful steps there: {share[near & won].sum():.2f} of all weight")
    print(f"  a successful step weighs more than another near it: {better / pairs:.2f}")


if __name__ == "__main__":
    tyro.cli(Probe).run()
