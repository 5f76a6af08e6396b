"""The kinds of scores that need no training, as settings that can be compared and called."""

from dataclasses import dataclass
from typing import Literal

from lobsdice.data.prepare import Data
from lobsdice.rewards.nearest import score_nearest
from lobsdice.rewards.scores import Advance, Scores, recorded
from lobsdice.rewards.transport import score_transport

#: The rewards that learners can be given: from the files, the nearest demonstrated pair, optimal
#: transport, or the log ratio of a discriminator of pairs, of states, or of states in the way of
#: TAILO, which takes the logs for a mixture that has something of the expert in it.
Reward = Literal["recorded", "nearest", "transport", "ratio", "state-ratio", "unlabelled"]


@dataclass(frozen=True)
class Recorded:
    """The rewards of the user's own."""

    def __call__(self, data: Data, advance: Advance) -> Scores:
        del advance
        return recorded(data)


@dataclass(frozen=True)
class Nearest:
    """Distances to the nearest demonstrated pair."""

    raw: bool = False
    """In the units of the files, not between normalised states."""

    def __call__(self, data: Data, advance: Advance) -> Scores:
        return score_nearest(data, raw=self.raw, advance=advance)


@dataclass(frozen=True)
class Transport:
    """Costs of optimal transport to the demonstrations."""

    raw: bool = False
    """In the units of the files, not between normalised states."""

    def __call__(self, data: Data, advance: Advance) -> Scores:
        return score_transport(data, raw=self.raw, advance=advance)


@dataclass(frozen=True)
class Ratio:
    """Logits of a discriminator, which training has to learn first."""

    pairs: bool
    """It sees pairs (s, s'), not single states."""
    unlabelled: bool
    """Learn in two stages as TAILO does: the logs may have something of the expert in them."""
    steps: int
    """Gradient steps of all stages."""
    width: int
    """Units in each of the two hidden layers."""
    calibrated: bool = False
    """Correct logits by the line that fits them best on held-out rows."""


Scorer = Recorded | Nearest | Transport
