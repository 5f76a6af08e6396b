"""Arrays of very many rows, read in pieces that fit the processor's cache."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int64

#: The number of rows in a piece.
CHUNK = 1 << 14


def chunks(rows: np.ndarray, size: int = CHUNK) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of the first row of each piece, and the piece."""
    return ((i, rows[i : i + size]) for i in range(0, len(rows), size))


def column_range(rows: Float32[np.ndarray, "n width"]) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of each column; NaN if the column holds NaN."""
    # Several rows side by side make the inner loop long enough for vector instructions.
    fold = max(1, min(len(rows), 512 // rows.shape[1]))
    whole = len(rows) // fold * fold
    lows, highs = [rows[whole:]], [rows[whole:]]
    for _, block in chunks(rows[:whole].reshape(-1, fold * rows.shape[1]), CHUNK // fold):
        lows.append(block.min(axis=0).reshape(fold, -1))
        highs.append(block.max(axis=0).reshape(fold, -1))
    return np.concatenate(lows).min(axis=0), np.concatenate(highs).max(axis=0)


def offsets(sizes: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """The first row of each group of rows, if groups of these sizes follow each other."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def ranges(starts: Int64[np.ndarray, " n"], sizes: Int64[np.ndarray, " n"]) -> np.ndarray:
    """The numbers starts[0], …, starts[0]+sizes[0]-1, then starts[1], … and so on."""
    return np.repeat(starts - offsets(sizes), sizes) + np.arange(sizes.sum())
