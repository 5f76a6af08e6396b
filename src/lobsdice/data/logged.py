"""The pairs (s, s') of logs that need not fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser

Pairs = Float32[np.ndarray, "_ width"]


@dataclass(frozen=True, eq=False)
class LoggedPairs:
    """The normalised pairs of all steps, in the order of the steps."""

    episodes: Episodes
    normaliser: Normaliser

    def __len__(self) -> int:
        return self.episodes.steps

    def blocks(self) -> Iterator[Pairs]:
        """Yield all pairs, some at a time."""
        for pairs in self.episodes.pair_blocks():
            states = pairs.reshape(len(pairs), 2, -1)
            yield self.normaliser(states).reshape(pairs.shape)

    def take(self, steps: Int64[np.ndarray, " n"]) -> Pairs:
        """The pairs of some steps."""
        rows = steps + self.episodes.episode_of(steps)
        states = (self.episodes.observations[rows + i] for i in (0, 1))
        return np.concatenate([self.normaliser(s) for s in states], axis=1)
