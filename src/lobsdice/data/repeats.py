"""Repeated rows and episodes, by our own hashes: NumPy cannot hash rows, and sorting them is slow.

Equal hashes are only a hint: the rows themselves decide. Only `distinct_rows` trusts the hashes.
"""

from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt64

from lobsdice.data.rows import CHUNK, chunks, offsets, ranges


def row_hashes(rows: Float32[np.ndarray, "n width"]) -> UInt64[np.ndarray, " n"]:
    """A 64-bit number for each row, the same for equal rows (0.0 and -0.0 are equal)."""
    random = np.random.default_rng(0)
    factors = random.integers(1, 1 << 63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(rows), np.uint64)
    for start, chunk in chunks(rows):
        bits = (chunk + np.float32(0)).view(np.uint32).astype(np.uint64)
        hashes[start : start + len(chunk)] = _mixed(bits * factors).sum(axis=1, dtype=np.uint64)
    return hashes


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Mix the bits of each number, so that different rows rarely have the same sum."""
    numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return numbers ^ (numbers >> np.uint64(29))


def shared_rows(
    ours: Float32[np.ndarray, "n width"], blocks: Iterable[Float32[np.ndarray, "_ width"]]
) -> Bool[np.ndarray, " n"]:
    """True for each row of `ours` that is also a row of one of the blocks."""
    keys = np.unique(row_hashes(ours))
    found = np.zeros(len(ours), bool)
    for block in blocks:
        hashes = row_hashes(block)
        place = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
        if len(some := block[keys[place] == hashes]):
            found |= _shared(ours, some)
    return found


def _shared(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    our_hash, their_hash = row_hashes(ours), row_hashes(theirs)
    order = np.argsort(their_hash)
    found = np.searchsorted(their_hash, our_hash, sorter=order)
    candidate = order[np.minimum(found, len(order) - 1)]
    return (theirs[candidate] == ours).all(axis=1)


def distinct_rows(
    rows: Float32[np.ndarray, "n width"],
) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " n"]]:
    """The numbers of the rows that equal no earlier row, and for each row its place among them."""
    return np.unique(_first_equal(row_hashes(rows)), return_inverse=True)


def repeated_episodes(
    rows: Float32[np.ndarray, "rows width"], lengths: Int64[np.ndarray, " episodes"]
) -> Int64[np.ndarray, " k"]:
    """The numbers of the episodes whose states equal those of an earlier episode.

    `rows` holds T+1 states for each episode of T steps.
    """
    sizes = lengths + 1
    starts = offsets(sizes)
    ends = np.concatenate([rows[starts], rows[starts + lengths]], axis=1)
    first = _first_equal(row_hashes(ends) + sizes.astype(np.uint64))
    # Equal first and last states are cheap to find and rare. Only such episodes are hashed whole.
    suspects = np.flatnonzero(np.bincount(first)[first] > 1)
    return _copies(suspects, sizes, lambda which: rows[ranges(starts[which], sizes[which])])


def _copies(
    suspects: np.ndarray, sizes: np.ndarray, states: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The suspects whose states equal those of an earlier one; `states(which)` gives states."""
    hashes = (_episode_hashes(states(some), sizes[some]) for some in batches(suspects, sizes))
    original = np.arange(len(sizes))
    original[suspects] = suspects[_first_equal(np.concatenate([np.empty(0, np.uint64), *hashes]))]
    copies = suspects[(original != np.arange(len(sizes)))[suspects]]
    copies = copies[sizes[copies] == sizes[original[copies]]]
    same = (
        np.logical_and.reduceat((states(c) == states(original[c])).all(axis=1), offsets(sizes[c]))
        for c in batches(copies, sizes)
    )
    return copies[np.concatenate([np.empty(0, bool), *same])]


def _first_equal(keys: np.ndarray) -> np.ndarray:
    """The place of the first equal key, for each key."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first[inverse]


def _episode_hashes(states: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    # The place of a row counts: the same states in another order are another episode.
    places = ranges(np.zeros_like(sizes), sizes).astype(np.uint64)
    return np.add.reduceat(_mixed(row_hashes(states) ^ _mixed(places)), offsets(sizes))


def batches(episodes: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """The episodes in groups of some hundred thousand rows, to limit the memory that they take."""
    rows = np.cumsum(sizes[episodes])
    cuts = np.searchsorted(rows, np.arange(16 * CHUNK, rows[-1] if rows.size else 0, 16 * CHUNK))
    return [batch for batch in np.split(episodes, np.unique(cuts)) if batch.size]
