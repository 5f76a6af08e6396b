"""Arrays with the same names in every format: action space, sources, names of observations."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError

SPACE = ("action_low", "action_high", "action_count")
LABELS = ("source", "source_names", "observation_names")


def space_entries(space: ActionSpace | None) -> dict[str, np.ndarray]:
    """`action_low` and `action_high` of a box, or `action_count` of a discrete space."""
    described = {} if space is None else space.description
    return {f"action_{key}": np.array(value) for key, value in described.items() if key != "kind"}


def label_entries(episodes: Episodes) -> dict[str, np.ndarray]:
    """The sources of episodes and the names of observations, if they are known."""
    values = ((key, getattr(episodes, key)) for key in LABELS)
    return {key: np.array(value) for key, value in values if value is not None and len(value)}


def space_of(entries: Mapping[str, np.ndarray]) -> ActionSpace | None:
    """The action space that `space_entries` described; None if there are no such entries."""
    found = [key for key in SPACE if key in entries]
    for key in found:
        if np.asarray(entries[key]).dtype.kind not in "iuf":
            raise LobsDICEError(f"{key} must hold numbers")
    if found == ["action_low", "action_high"]:
        return Box.of(entries["action_low"], entries["action_high"])
    if found == ["action_count"]:
        if np.size(entries["action_count"]) != 1:
            raise LobsDICEError("action_count must be one number")
        return Discrete(int(np.ravel(entries["action_count"])[0]))
    if found:
        raise LobsDICEError(
            f"the file has {' and '.join(found)}; it must have either action_low and action_high, "
            "or action_count"
        )
    return None


def labels_of(entries: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The names of observations and sources, as arguments of `Episodes.from_arrays`."""
    labels = {"observation_names": _texts(entries, "observation_names")}
    if "source" not in entries or "source_names" not in entries:
        return labels
    source = np.asarray(entries["source"])
    if source.dtype.kind not in "iu" or source.ndim != 1:
        raise LobsDICEError("source must hold one integer for each episode")
    return labels | {"source": source, "source_names": _texts(entries, "source_names")}


def _texts(entries: Mapping[str, np.ndarray], key: str) -> tuple[str, ...]:
    """A list of texts, empty if the key is not there."""
    names = np.asarray(entries.get(key, ()))
    if names.ndim != 1 or not all(isinstance(name, str | bytes) for name in names.tolist()):
        raise LobsDICEError(f"{key} must be a list of texts")
    return tuple(n.decode() if isinstance(n, bytes) else n for n in names.tolist())
