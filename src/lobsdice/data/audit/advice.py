"""The methods to begin with, and why. docs/choosing.md has the measurements behind them."""

from typing import Literal, NamedTuple

import numpy as np

from lobsdice.data.context import differs_between_episodes
from lobsdice.data.episodes import Episodes

Verdict = Literal["covered", "partly covered", "not covered"]

#: The method to begin with, and the one to train beside it, which looks along logged episodes.
FIRST, BESIDE = "lobsdice", "nearest_trajectory"
#: Logged episodes with fewer steps in the middle say little about what follows a step.
FEWEST_STEPS = 10
#: With a larger share of uncovered transitions, no logged episode does the whole task.
MOST = 0.5


class Advice(NamedTuple):
    """The methods to train, and why."""

    methods: list[str]
    """Names of algorithms in their order; none if none can be expected to work."""
    reason: str
    """It begins with a small letter and has no full stop."""

    @property
    def sentence(self) -> str:
        """The methods and the reason."""
        return f"{', then '.join(self.methods) or 'none'}: {self.reason}"


def advise(
    verdict: Verdict, offline: Episodes, *, uncovered: float, mistaken: bool = False
) -> Advice:
    """The methods to train on data with this verdict and this share of uncovered transitions.

    `mistaken` data has other units or another rate, which may be why it is not covered.
    """
    if verdict == "not covered":
        remedy = "first bring both to the same units and rate" if mistaken else "record other logs"
        return Advice([], f"no method learns what the logs do not show; {remedy}")
    if np.median(offline.lengths) < FEWEST_STEPS:
        return Advice([FIRST], "methods that look along logged episodes need longer ones")
    if differs_between_episodes(offline).any():
        return Advice(
            [FIRST], "among the most successful in a maze where each episode has its own goal"
        )
    if uncovered > MOST:
        reason = "the logs hardly show what is demonstrated, where no method came near it"
        return Advice([FIRST, BESIDE], f"{reason}; record better logs")
    if offline.terminated.any():
        return Advice([FIRST, BESIDE], "the most successful ones in worlds that end, and level")
    return Advice([FIRST, BESIDE], "no method was ahead of the first on tasks without an end")
