"""SEABO (Lyu et al., ICLR 2024, arXiv:2402.03807): rewards by the nearest demonstrated pair, IQL.

    r(s,s') = exp(-0.5 d / |A|)

d is the Euclidean distance of (s,s') from the nearest pair in the demonstrations, in the units of
the files, and |A| the number of coordinates of an action. IQL learns from these rewards.
"""

from typing import ClassVar

from lobsdice.algorithms.base import hyperparameters, one_of
from lobsdice.algorithms.iql import IQL
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.rewards.kinds import Reward


@register
@hyperparameters
class SEABO(IQL):
    """Hyperparameters of SEABO: those of IQL, with its reward."""

    summary: ClassVar = "IQL, rewarded for steps near a demonstrated one."
    citation: ClassVar = "Lyu et al. 2024, arXiv:2402.03807"
    needs: ClassVar = STATE_PAIRS

    reward: Reward = one_of(Reward, default="nearest")
    """The source of rewards; see `iql`."""
    raw_units: bool = True
    """Compare states in the units of the files. Otherwise they are normalised."""
