"""Checks of arrays that users hand in; errors name the array and the row."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from lobsdice.data.rows import chunks
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


def check_finite(key: str, rows: np.ndarray) -> None:
    """Raise an error that names the first row and column that is NaN or infinite."""
    for start, chunk in chunks(rows):
        # Minimum and maximum carry NaN and infinity along and need no large temporary.
        if not np.isfinite([chunk.min(), chunk.max()]).all():
            row, column = np.argwhere(~np.isfinite(chunk))[0]
            raise LobsDICEError(f"{key} row {start + row}, column {column} is {chunk[row, column]}")


def check_lengths(lengths: np.ndarray, arrays: Mapping[str, np.ndarray | None]) -> None:
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
