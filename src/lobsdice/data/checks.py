"""Checks of arrays that users hand in; errors name the array and the row."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lobsdice.data.rows import chunks, column_range
from lobsdice.data.spaces import Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError


def numeric(key: str, values: ArrayLike, dtype, *, ndim: int = 1) -> np.ndarray:
    """An array of this type, or an error if the values are not such numbers."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise LobsDICEError(f"{key} is ragged: its rows differ in length") from error
    if array.dtype.kind not in "biuf":
        raise LobsDICEError(f"{key} must be numbers, not {array.dtype}")
    if array.ndim != ndim:
        raise LobsDICEError(f"{key} has shape {array.shape}, expected {ndim} dimension(s)")
    if dtype in (np.int64, np.bool_) and array.dtype.kind == "f":
        check_finite(key, array[:, None])
        if (array != np.round(array)).any():
            raise LobsDICEError(f"{key} must be whole numbers")
    with np.errstate(over="ignore"):  # an overflow to infinity is reported with its row
        return np.ascontiguousarray(array, dtype=dtype)


def check_episodes(fields: Mapping[str, Any], checked: Collection[str] = ()) -> None:
    """Raise unless the fields of `Episodes` fit together and hold what they should."""
    arrays = ("observations", "terminated", "actions", "rewards", "source")
    _check_lengths(fields["lengths"], {key: fields[key] for key in arrays})
    width, names = fields["observations"].shape[1], fields["observation_names"]
    if not width:
        raise LobsDICEError("observations have no columns")
    if len(names) not in (0, width):
        raise LobsDICEError(
            f"observations have {width} columns, but {len(names)} observation_names"
        )
    _check_source(fields["source"], fields["source_names"])
    actions, space = fields["actions"], fields["action_space"]
    if (actions is None) != (space is None):
        raise LobsDICEError("actions and their action space come together or not at all")
    for key in ("observations", "rewards"):
        if key not in checked and (array := fields[key]) is not None:
            check_finite(key, array.reshape(len(array), -1))
    if "actions" not in checked and actions is not None:
        check_actions(actions, space)


def _check_lengths(lengths: np.ndarray, arrays: Mapping[str, np.ndarray | None]) -> None:
    """Raise an error unless every array has the rows that episodes of these lengths need."""
    if not len(lengths):
        raise LobsDICEError("there are no episodes")
    if (short := np.flatnonzero(lengths < 1)).size:
        raise LobsDICEError(
            f"episode_lengths row {short[0]} is {lengths[short[0]]}; an episode has at least 1 step"
        )
    steps, count = int(lengths.sum()), len(lengths)
    for key, array in arrays.items():
        wanted, why = {
            "observations": (steps + count, "T+1 for each episode of T steps"),
            "actions": (steps, "one a step"),
            "rewards": (steps, "one a step"),
        }.get(key, (count, "one an episode"))
        if array is not None and len(array) != wanted:
            raise LobsDICEError(
                f"{key} has {len(array)} rows, "
                f"but the {count} episode lengths need {wanted} ({why})"
            )


def _check_source(source: np.ndarray | None, names: tuple[str, ...]) -> None:
    if source is None:
        return
    if (bad := np.flatnonzero((source < 0) | (source >= len(names)))).size:
        raise LobsDICEError(
            f"source row {bad[0]} is {source[bad[0]]}, but there are {len(names)} source names"
        )


def check_finite(key: str, rows: np.ndarray) -> None:
    """Raise an error that names the first row and column that is NaN or infinite."""
    for start, chunk in chunks(rows):
        # Minimum and maximum carry NaN and infinity along and need no large temporary.
        if not np.isfinite([chunk.min(), chunk.max()]).all():
            row, column = np.argwhere(~np.isfinite(chunk))[0]
            raise LobsDICEError(f"{key} row {start + row}, column {column} is {chunk[row, column]}")


def check_actions(actions: Actions, space: ActionSpace) -> None:
    """Raise an error that names the first action that does not belong to `space`."""
    if isinstance(space, Discrete) != (actions.dtype == np.int64):
        raise LobsDICEError(
            f"actions are {'integers' if actions.dtype == np.int64 else 'floats'}, "
            f"but their space is {space}"
        )
    if isinstance(space, Box) and actions.shape[1] != space.size:
        raise LobsDICEError(f"actions have {actions.shape[1]} columns, their bounds {space.size}")
    for start, chunk in chunks(actions):
        if isinstance(space, Box):
            extremes = np.stack(column_range(chunk))
            if not np.isfinite(extremes).all():
                check_finite("actions", actions)
            if not space.outside(extremes).size:
                continue
        if (rows := space.outside(chunk)).size:
            raise LobsDICEError(
                f"actions row {start + rows[0]} is {chunk[rows[0]].tolist()}, outside {space}"
            )
