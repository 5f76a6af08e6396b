"""Results of blocks of seeds on disk, so that an interrupted experiment goes on where it was."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lobsdice.data.files import atomic
from lobsdice.errors import LobsDICEError

SETTINGS = "settings.json"
BLOCKS = "blocks"


class Block(NamedTuple):
    """The results of some seeds: axes (seed, β, expert, offline), and curve where there is one."""

    seeds: Int[np.ndarray, " n"]
    total_variation: Float[np.ndarray, "n betas experts offlines curves"]
    failed: Bool[np.ndarray, "n betas experts offlines curves"]
    unsupported: Float[np.ndarray, "n betas experts offlines"]


def claim(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings down, or raise if the folder holds results of other settings."""
    if (folder / SETTINGS).exists():
        if differing := _differing(folder, settings):
            raise LobsDICEError(
                f"{folder} holds results of other settings ({', '.join(differing)} differ); "
                "choose another folder, or remove this one"
            )
        return
    with atomic(folder / SETTINGS) as temporary:
        temporary.write_text(json.dumps(settings, indent=2) + "\n")


def check_alike(folder: Path, settings: dict[str, Any], *, apart_from: set[str]) -> None:
    """Raise unless the folder holds results of these settings, but for some that may differ."""
    if not (folder / SETTINGS).exists():
        raise LobsDICEError(f"{folder} has no {SETTINGS}: it is no folder of an experiment")
    if differing := [key for key in _differing(folder, settings) if key not in apart_from]:
        raise LobsDICEError(
            f"the runs of {folder} cannot be reused: other settings ({', '.join(differing)} differ)"
        )


def _differing(folder: Path, settings: dict[str, Any]) -> list[str]:
    found = json.loads((folder / SETTINGS).read_text())
    return sorted(key for key in found | settings if found.get(key) != settings.get(key))


def save(folder: Path, block: Block) -> None:
    """Add a block of seeds."""
    first, last = int(block.seeds[0]), int(block.seeds[-1])
    with atomic(folder / BLOCKS / f"{first:06d}-{last:06d}.npz") as temporary:
        np.savez_compressed(temporary, **block._asdict())


def load(folder: Path, seeds: int) -> Block | None:
    """All that is known of the first `seeds` seeds, in their order; None if nothing is."""
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
    """Which of the first `seeds` seeds are not yet known."""
    known = load(folder, seeds)
    done = set() if known is None else set(known.seeds.tolist())
    return [seed for seed in range(seeds) if seed not in done]
