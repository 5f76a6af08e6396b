"""Arrays with the same names in every format: action space, sources, success, names of columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy.typing import ArrayLike

from lobsdice.data.checks import numeric
from lobsdice.data.episodes import Episodes
from lobsdice.data.rows import offsets
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError, plural

BOUNDS = ("action_low", "action_high", "action_count")
SPACE = (*BOUNDS, "action_names")
LABELS = ("source", "source_names", "observation_names", "episode_names", "success")

#: The names of the array or column that tells success from failure.
SUCCESS = ("success", "is_success")


def space_entries(space: ActionSpace | None) -> dict[str, np.ndarray]:
    """`action_low` and `action_high` of a box, or `action_count`; and `action_names`, if known."""
    described = {} if space is None else space.description
    return {f"action_{key}": np.array(value) for key, value in described.items() if key != "kind"}


def label_entries(episodes: Episodes) -> dict[str, np.ndarray]:
    """The sources and the success of episodes, and the names of observations, if known."""
    values = ((key, getattr(episodes, key)) for key in LABELS)
    return {key: np.array(value) for key, value in values if value is not None and len(value)}


def space_of(entries: Mapping[str, np.ndarray]) -> ActionSpace | None:
    """The action space that `space_entries` described; None if there are no such entries."""
    found, names = [key for key in BOUNDS if key in entries], texts(entries, "action_names")
    for key in found:
        if np.asarray(entries[key]).dtype.kind not in "iuf":
            raise LobsDICEError(f"{key} must hold numbers")
    if found == ["action_low", "action_high"]:
        return Box.of(entries["action_low"], entries["action_high"], names)
    if found == ["action_count"]:
        if np.size(entries["action_count"]) != 1:
            raise LobsDICEError("action_count must be one number")
        return Discrete(int(np.ravel(entries["action_count"])[0]), names)
    if found:
        raise LobsDICEError(
            f"the file has {' and '.join(found)}; it must have either action_low and action_high, "
            "or action_count"
        )
    return None


def labels_of(entries: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The labels that `label_entries` described, as arguments of `Episodes.from_arrays`."""
    names = ("observation_names", "episode_names")
    labels: dict[str, Any] = {key: texts(entries, key) for key in names}
    if "success" in entries:
        labels["success"] = flags_of("success", entries["success"])
    if "source" not in entries or "source_names" not in entries:
        return labels
    source = np.asarray(entries["source"])
    if source.dtype.kind not in "iu" or source.ndim != 1:
        raise LobsDICEError("source must hold one integer for each episode")
    return labels | {"source": source, "source_names": texts(entries, "source_names")}


def flags_of(name: str, values: ArrayLike) -> Int64[np.ndarray, " n"]:
    """Values of success: 1 or true, 0 or false, and -1 for -1 and NaN, which mean unknown."""
    values = np.asarray(values)
    column = values[:, 0] if values.shape[1:] == (1,) else values
    flags = np.nan_to_num(numeric(name, column, np.float64), nan=-1)
    if (bad := np.flatnonzero(~np.isin(flags, (-1, 0, 1)))).size:
        raise LobsDICEError(f"{name}, row {bad[0]}: {flags[bad[0]]:g} is neither 0 nor 1")
    return flags.astype(np.int64)


def success_of(
    name: str, flags: Int64[np.ndarray, " n"], sizes: Int64[np.ndarray, " episodes"]
) -> Int64[np.ndarray, " episodes"]:
    """1 for each episode with a flag of 1, else 0 if it has one of 0, else -1.

    There is one flag an episode, or one a row. The episodes have `sizes` rows.
    """
    if len(flags) == len(sizes):
        return flags
    if len(flags) != sizes.sum():
        raise LobsDICEError(
            f"{name} has {plural(len(flags), 'row')}; it must have one for each of the "
            f"{plural(len(sizes), 'episode')}, or one for each step"
        )
    return np.maximum.reduceat(flags, offsets(sizes))


def texts(entries: Mapping[str, np.ndarray], key: str) -> tuple[str, ...]:
    """A list of texts, empty if the key is not there."""
    names = np.asarray(entries.get(key, ()))
    if names.ndim != 1 or not all(isinstance(name, str | bytes) for name in names.tolist()):
        raise LobsDICEError(f"{key} must be a list of texts")
    return tuple(n.decode() if isinstance(n, bytes) else n for n in names.tolist())
