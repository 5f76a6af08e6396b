"""Rows that networks learn from, and recorded steps of which each observation is stored once.

The next state of a step is the row after its state. So s and s' need one table and the number of
a row, not two arrays. A batch gathers its own s and s' from the table.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

#: Steps that are gathered at a time.
BLOCK = 1 << 16


class Observations(NamedTuple):
    """State pairs (s, s'): all that is known of an expert.

    The arrays are NumPy's on the host and JAX's in a batch.
    """

    s: Float[Any, "n state"]
    s_next: Float[Any, "n state"]


class Transitions(NamedTuple):
    """Transitions (s, a, s'); real actions are scaled to [-1, 1]."""

    s: Float[Any, "n state"]
    a: Float[Any, "n action"] | Int[Any, " n"]
    s_next: Float[Any, "n state"]


class Steps(NamedTuple):
    """Recorded steps as numbers of rows in a table of observations.

    The arrays are NumPy's on the host and JAX's on a device. Columns with one entry a step, such as
    actions, follow `row`.
    """

    observations: Float[Any, "rows state"]
    """The states of all episodes, one episode after the other."""
    final: Bool[Any, " rows"]
    """True for the final state of each episode. What follows it is itself."""
    row: Int[Any, " n"]
    """The row of each step's state."""
    a: Any = None
    """The actions as in `Transitions`; None if they are unknown."""

    @property
    def size(self) -> int:
        """The number of steps."""
        return len(self.row)

    @property
    def s(self) -> Float[Any, "n state"]:
        """A copy of the state of each step."""
        return self.observations[self.row]

    @property
    def s_next(self) -> Float[Any, "n state"]:
        """A copy of the next state of each step."""
        return self.observations[self._following(self.row)]

    @property
    def pairs(self) -> Float[np.ndarray, "n pair"]:
        """A copy of the state and the next state of each step, side by side; on the host."""
        return np.concatenate([self.s, self.s_next], axis=1)

    def pair_blocks(self) -> Iterator[Float[np.ndarray, "_ pair"]]:
        """Yield `pairs` in blocks, because all of them take twice the memory of the table."""
        for start in range(0, self.size, BLOCK):
            rows = self.row[start : start + BLOCK]
            s, s_next = self.observations[rows], self.observations[self._following(rows)]
            yield np.concatenate([s, s_next], axis=1)

    def take(self, number: Int[Any, " m"]) -> Any:
        """The steps with these numbers: `Transitions`, or `Observations` if actions are unknown."""
        row = self.row[number]
        s, s_next = self.observations[row], self.observations[self._following(row)]
        return Observations(s, s_next) if self.a is None else Transitions(s, self.a[number], s_next)

    def after_next(self, number: Int[Any, " m"]) -> tuple[Float[Any, "m state"], Bool[Any, " m"]]:
        """The states s'' after s' of the steps with these numbers, and True where there is one.

        Where the episode ends in s', s'' is s'.
        """
        row = self._following(self.row[number])
        return self.observations[self._following(row)], ~self.final[row]

    def _following(self, row: Int[Any, " m"]) -> Int[Any, " m"]:
        return row + 1 - self.final[row]


def store(rows: Observations | Transitions) -> Steps:
    """Steps from rows that need not follow each other, such as those of a world made by hand."""
    table = np.stack([rows.s, rows.s_next], axis=1).reshape(2 * len(rows.s), rows.s.shape[1])
    final = np.tile([False, True], len(rows.s))
    a = rows.a if isinstance(rows, Transitions) else None
    return Steps(table, final, np.arange(0, 2 * len(rows.s), 2, dtype=np.int32), a)


def join(parts: Sequence[Steps]) -> Steps:
    """The steps of several tables in one table, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    first = np.cumsum([0, *(len(part.observations) for part in parts)])
    return Steps(
        observations=np.concatenate([part.observations for part in parts]),
        final=np.concatenate([part.final for part in parts]),
        row=np.concatenate(
            [part.row + np.int32(i) for part, i in zip(parts, first[:-1], strict=True)]
        ),
        a=None if parts[0].a is None else np.concatenate([part.a for part in parts]),
    )
