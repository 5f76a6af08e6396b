"""OTR (Luo et al., ICLR 2023, arXiv:2303.13971): rewards by optimal transport, then IQL.

Each episode of T states is moved to each demonstration at the least cost, where 1 - cos(s, e) is
the cost of a unit of mass, and all states of an episode have equal masses:

    r_t = 5 exp(-5 T/|s| Σ_j P_tj C_tj)

Of several demonstrations the one with the largest sum of rewards counts. Rewards are then scaled so
that the returns of all episodes span 1000.
"""

from typing import ClassVar

from lobsdice.algorithms.base import hyperparameters, one_of
from lobsdice.algorithms.iql import IQL
from lobsdice.algorithms.registry import register
from lobsdice.rewards.kinds import Reward


@register
@hyperparameters
class OTR(IQL):
    """Hyperparameters of OTR: those of IQL, with its reward."""

    summary: ClassVar = "IQL, rewarded for episodes that are cheaply moved to a demonstration."
    citation: ClassVar = "Luo et al. 2023, arXiv:2303.13971"
    needs: ClassVar = "whole demonstrations (s); whole logged episodes (s, a, s')"

    reward: Reward = one_of(Reward, default="transport")
    """The source of rewards; see `iql`."""
    raw_units: bool = True
    """Compare states in the units of the files. Otherwise they are normalised."""
    rescale: bool = True
    """Scale rewards so that the returns of the logged episodes span 1000."""
