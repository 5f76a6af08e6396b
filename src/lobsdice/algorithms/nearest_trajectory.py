"""Nearest-trajectory cloning: clone steps after which an episode stays near the demonstrations.

Ours, from SEABO's idea of the nearest demonstrated pair and TAILO's of the rest of the episode:

    d    the distance of (s,s') from the nearest demonstrated pair, between normalised states
    d0   the median of the same distance between demonstrations
    u    exp(-max(d/d0 - 1, 0)): 1 for steps as near as demonstrations are to one another
    G_t  (1-γ) u_t + γ G_{t+1}, where at an end the final state repeats
    w    exp(G/T), the weight in cloning

There is no discriminator and no critic. The policy is the only network.
"""

from typing import ClassVar

import jax.numpy as jnp

from lobsdice.algorithms.base import above, hyperparameters, one_of
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.algorithms.sums import EpisodeSums
from lobsdice.equations.duals import Values
from lobsdice.rewards.kinds import Reward


@register
@hyperparameters
class NearestTrajectory(EpisodeSums):
    """Hyperparameters of nearest-trajectory cloning."""

    summary: ClassVar = "Clone steps after which an episode stays near the demonstrations."
    citation: ClassVar = "ours, after SEABO and TAILO"
    needs: ClassVar = STATE_PAIRS + ", in whole episodes"

    reward: Reward = one_of(Reward, default="nearest")
    """The source of the likeness; see `iql`. Recorded rewards are scaled to [0, 1]."""
    temperature: float = above(0, default=0.1)
    """T. A step whose G is larger by T counts e times as much."""

    def weigh(self, log_mean: Values) -> Values:
        return jnp.exp(log_mean) / self.temperature
