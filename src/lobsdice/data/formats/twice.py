"""Rows of a table that are there twice, as loggers write them."""

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from lobsdice.errors import LobsDICEError, plural

#: If more than one row of so many repeats a step, the clock of the file counts too slowly.
MANY = 10
COARSE = (
    "many rows do, as if the clock were too coarse to order them: leave out `step_column`, so that "
    "the order of the file counts"
)

Rows = Int64[np.ndarray, " _"]


def find_twice(
    table: pa.Table, steps: np.ndarray, episode: np.ndarray, order: Rows, name: str
) -> tuple[Rows, Rows]:
    """The rows that repeat another row in all cells that are read, and the rows they repeat.

    `name` is the column of the steps. It is an error if other cells differ: then nobody knows
    which row is right.
    """
    before, after = order[:-1], order[1:]
    same = (steps[before] == steps[after]) & (episode[before] == episode[after])
    first, again = before[same], after[same]
    if not again.size:
        return again, first
    for one, other in zip(_cells(table, first), _cells(table, again), strict=True):
        if (unlike := np.flatnonzero([a != b for a, b in zip(one, other, strict=True)])).size:
            row = int(again[unlike[0]])
            raise LobsDICEError(
                f"column '{name}', row {row}: {table[name][row]} repeats the step of row "
                f"{first[unlike[0]]} of the same episode, and the rows differ; "
                f"{COARSE if again.size > max(1, len(order) / MANY) else 'remove one of them'}"
            )
    return again, _origins(first, again)


def sentence(count: int) -> str:
    """A warning about rows that were left out."""
    return f"{plural(count, 'repeated row')} left out"


def _cells(table: pa.Table, rows: Rows) -> list[list[Any]]:
    """The cells of each column in some rows, as texts, because NaN equals itself there."""
    found = table.take(rows)
    return [[repr(cell) for cell in column.to_pylist()] for column in found.columns]


def _origins(first: Rows, again: Rows) -> Rows:
    """The rows that are kept: of three equal rows, the third repeats the first."""
    origin: dict[int, int] = {}
    for kept, row in zip(map(int, first), map(int, again), strict=True):
        origin[row] = origin.get(kept, kept)
    return np.array([origin[int(row)] for row in again], np.int64)
