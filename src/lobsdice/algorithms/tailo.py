"""TAILO (Yan et al., NeurIPS 2023, arXiv:2311.01329): clone what leads to the expert's states.

A discriminator gives R = log d^E(s)/d^I(s). It is learned in two stages, because the logs may hold
episodes of the expert; see `training/stages.py`. The weights are sums along the recorded episode,

    max_π  E_{d^I}[W log π(a|s)],   W_t = Σ_k γ^k exp(1.25 R_{t+k}),

in which the last row of an episode repeats for ever. They are computed in logarithms.
"""

from typing import ClassVar

from lobsdice.algorithms.base import at_least, hyperparameters, one_of, within
from lobsdice.algorithms.registry import register
from lobsdice.algorithms.sums import EpisodeSums
from lobsdice.equations.duals import Values
from lobsdice.rewards.kinds import Reward


@register
@hyperparameters
class TAILO(EpisodeSums):
    """Hyperparameters of TAILO. The defaults are those of its code, unless marked."""

    summary: ClassVar = "Clone steps after which an episode comes to the expert's states."
    citation: ClassVar = "Yan et al. 2023, arXiv:2311.01329"
    needs: ClassVar = "demonstrations (s); whole logged episodes (s, a, s')"

    reward: Reward = one_of(Reward, default="unlabelled")
    """The source of the likeness; see `iql`. Recorded rewards are scaled to [0, 1]."""
    gamma: float = within(0, 1, default=0.998)
    """Discount along the episode."""
    sharpness: float = at_least(0, default=1.25)
    """Factor on the log ratio, or on the exponent of other likenesses."""
    policy_rate: float = at_least(0, default=1e-4)
    """Learning rate of the policy."""

    def weigh(self, log_mean: Values) -> Values:
        return log_mean
