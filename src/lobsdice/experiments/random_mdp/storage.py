"""Results of blocks of seeds on disk, from which an interrupted experiment continues."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lobsdice.data.files import atomic

BLOCKS = "blocks"


class Block(NamedTuple):
    """The results of some seeds, for each β, number of demonstrations and number of logs."""

    seeds: Int[np.ndarray, " n"]
    total_variation: Float[np.ndarray, "n betas experts offlines curves"]
    failed: Bool[np.ndarray, "n betas experts offlines curves"]
    unsupported: Float[np.ndarray, "n betas experts offlines"]


def save(folder: Path, block: Block) -> None:
    """Write the results of a block of seeds."""
    first, last = int(block.seeds[0]), int(block.seeds[-1])
    with atomic(folder / BLOCKS / f"{first:06d}-{last:06d}.npz") as temporary:
        np.savez_compressed(temporary, **block._asdict())


def load(folder: Path, seeds: int) -> Block | None:
    """The stored results of the first `seeds` seeds, in order; None if there are none."""
    parts = [_read(path) for path in sorted((folder / BLOCKS).glob("*.npz"))]
    if not parts:
        return None
    joined = Block(*map(np.concatenate, zip(*parts, strict=True)))
    found, rows = np.unique(joined.seeds, return_index=True)
    return Block(*(field[rows[found < seeds]] for field in joined))


def _read(path: Path) -> Block:
    with np.load(path) as stored:
        return Block(**stored)


def missing(folder: Path, seeds: int) -> list[int]:
    """The first `seeds` seeds, but for those with stored results."""
    known = load(folder, seeds)
    done = set() if known is None else set(known.seeds.tolist())
    return [seed for seed in range(seeds) if seed not in done]
