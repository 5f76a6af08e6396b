"""Logs that stay on the disk: blocks of steps, some of which are in memory at a time.

The logs are cut into blocks of consecutive steps. A pool has room for some of them. Whenever the
pool changes, the blocks that have been there longest give way to the next ones. These come in a
random order, in which every block occurs once before any occurs again. So each block is in the pool
for the same number of changes, and in the long run every step is drawn equally often. Which blocks
are in the pool after a number of changes depends on that number alone: a run that is resumed
continues with the same pool.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box
from lobsdice.data.steps import Steps
from lobsdice.errors import LobsDICEError

#: The steps of a block are a multiple of this, in which training holds out the same rows of all.
UNIT = 512
#: The largest block, and the fewest blocks of a pool, unless it is small. Steps of a block are
#: alike: a pool of few blocks shows little of the logs.
LARGEST, FEWEST = 4 * UNIT, 500
#: The share of the pool that changes at a time, but at least so many steps, and at most half. In a
#: small pool that changes slowly, training would draw each step hundreds of times in a row.
CHANGE, MANY = 0.1, 100_000

Numbers = Int64[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The logs in blocks, and the pool that holds some of them."""

    episodes: Episodes
    normaliser: Normaliser
    size: int
    """Steps of a block."""
    slots: int
    """Blocks in the pool."""
    fresh: int
    """Blocks that are replaced at a time, a divisor of `slots`."""

    @property
    def count(self) -> int:
        """The number of blocks. Steps after the last whole block are never drawn."""
        return self.episodes.steps // self.size

    @cached_property
    def rows(self) -> int:
        """Rows of the table that a block needs at most: a state a step, and one for each cut."""
        first = self.size * np.arange(self.count)
        cuts = self.episodes.episode_of(first + self.size - 1) - self.episodes.episode_of(first)
        return self.size + 1 + int(cuts.max())

    def held(self, version: int) -> Numbers:
        """The number of the block in each slot after `version` changes."""
        newest = self.slots + version * self.fresh
        slot = np.arange(self.slots)
        return self._order(slot + (newest - 1 - slot) // self.slots * self.slots)

    def pool(self, version: int) -> Steps:
        """All steps in the pool after `version` changes."""
        return self.load(self.held(version))

    def change(self, version: int) -> tuple[int, Steps]:
        """The first slot that the change to `version` replaces, and the new steps there."""
        newest = self.slots + version * self.fresh
        places = np.arange(newest - self.fresh, newest)
        return int(places[0] % self.slots), self.load(self._order(places))

    def numbers(self, version: int) -> Numbers:
        """The number in the logs of each step in the pool."""
        return (self.size * self.held(version)[:, None] + np.arange(self.size)).ravel()

    def load(self, blocks: Numbers) -> Steps:
        """The steps of some blocks, read from the disk; each block has `rows` rows of the table."""
        episodes, count = self.episodes, len(blocks)
        table = np.zeros((count * self.rows, episodes.state_size), np.float32)
        final = np.ones(len(table), bool)
        row = np.empty(count * self.size, np.int32)
        for i, block in enumerate(blocks.tolist()):
            steps = np.arange(block * self.size, (block + 1) * self.size)
            of = self.episodes.episode_of(steps)
            first, last = steps[0] + of[0], steps[-1] + of[-1] + 1
            place = slice(i * self.rows, i * self.rows + int(last - first) + 1)
            table[place] = self.normaliser(episodes.observations[first : last + 1])
            row[i * self.size : (i + 1) * self.size] = steps + of - first + place.start
            final[place] = False
            # What follows the last state of a block is not here.
            final[[*(episodes.ends[of[0] : of[-1]] - first + place.start), place.stop - 1]] = True
        return Steps(table, final, row, self._actions(blocks))

    def _actions(self, blocks: Numbers) -> np.ndarray:
        actions, space = self.episodes.actions, self.episodes.action_space
        assert actions is not None
        parts = [actions[b * self.size : (b + 1) * self.size] for b in blocks.tolist()]
        found = np.concatenate(parts)
        return space.encode(found) if isinstance(space, Box) else found

    def _order(self, places: Numbers) -> Numbers:
        """The blocks at some places of an endless list of random orders of all blocks."""
        found = np.empty_like(places)
        for lap in np.unique(places // self.count).tolist():
            order = np.random.default_rng([self.count, lap]).permutation(self.count)
            mine = places // self.count == lap
            found[mine] = order[places[mine] % self.count]
        return found

    def description(self) -> dict[str, object]:
        """The facts that the order of draws depends on, for fingerprints."""
        facts = self.episodes.facts
        return {
            "digest": facts and facts.digest,
            "steps": self.episodes.steps,
            "size": self.size,
            "slots": self.slots,
            "fresh": self.fresh,
        }


def divide(episodes: Episodes, normaliser: Normaliser, pool: int) -> Blocks:
    """Blocks for a pool of about `pool` steps."""
    if pool < 2 * UNIT:
        raise LobsDICEError(f"`pool` is {pool}; it must be at least {2 * UNIT} steps")
    size = min(LARGEST, max(UNIT, pool // FEWEST // UNIT * UNIT))
    slots = pool // size
    fresh = min(max(round(CHANGE * slots), MANY // size), slots // 2)
    return Blocks(episodes, normaliser, size, slots // fresh * fresh, fresh)
