"""Checks of the arrays that users provide; errors name the array and the row."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lobsdice.data.rows import chunks, column_range
from lobsdice.data.spaces import Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError, plural


def numeric(key: str, values: ArrayLike, dtype, *, ndim: int = 1) -> np.ndarray:
    """The values as an array of type `dtype`; raise an error if they cannot be."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise LobsDICEError(f"{key} is ragged: its rows differ in length") from error
    if array.dtype.kind not in "biuf":
        raise LobsDICEError(f"{key} must be numbers, not {array.dtype}")
    if array.ndim != ndim:
        raise LobsDICEError(
            f"{key} has the shape {array.shape}; it must have {plural(ndim, 'dimension')}"
        )
    if dtype in (np.int64, np.bool_) and array.dtype.kind == "f":
        check_finite(key, array[:, None])
        if (array != np.round(array)).any():
            raise LobsDICEError(f"{key} must be whole numbers")
    with np.errstate(over="ignore"):  # `check_finite` reports an overflow with its row
        return np.ascontiguousarray(array, dtype=dtype)


def check_episodes(fields: Mapping[str, Any], checked: Collection[str] = ()) -> None:
    """Raise an error unless the fields of `Episodes` are valid and fit together.

    The numbers of the arrays in `checked` are not looked at again.
    """
    arrays = ("observations", "terminated", "actions", "rewards", "source", "success")
    _check_lengths(fields["lengths"], {key: fields[key] for key in arrays})
    width, names = fields["observations"].shape[1], fields["observation_names"]
    if not width:
        raise LobsDICEError("observations has no columns")
    if len(names) not in (0, width):
        raise LobsDICEError(
            f"observations has {plural(width, 'column')}, but there are {len(names)} "
            "observation_names; there must be one a column"
        )
    called = fields["episode_names"]
    if len(called) not in (0, len(fields["lengths"])):
        raise LobsDICEError(
            f"there are {plural(len(fields['lengths']), 'episode')}, but {len(called)} "
            "episode_names; there must be one an episode"
        )
    _check_source(fields["source"], fields["source_names"])
    _check_success(fields["success"])
    actions, space = fields["actions"], fields["action_space"]
    if (actions is None) != (space is None):
        raise LobsDICEError("actions and action_space must be given together or not at all")
    for key in ("observations", "rewards"):
        if key not in checked and (array := fields[key]) is not None:
            check_finite(key, array.reshape(len(array), -1))
    if "actions" not in checked and actions is not None:
        check_actions(actions, space)


def _check_lengths(lengths: np.ndarray, arrays: Mapping[str, np.ndarray | None]) -> None:
    """Raise an error unless every array has as many rows as the lengths of the episodes need."""
    if not len(lengths):
        raise LobsDICEError("there are no episodes")
    if (short := np.flatnonzero(lengths < 1)).size:
        raise LobsDICEError(
            f"episode_lengths, row {short[0]}: {lengths[short[0]]} steps, but an episode has at "
            "least 1"
        )
    steps, count = int(lengths.sum()), len(lengths)
    for key, array in arrays.items():
        wanted, why = {
            "observations": (steps + count, "T+1 for an episode of T steps"),
            "actions": (steps, "one for each step"),
            "rewards": (steps, "one for each step"),
        }.get(key, (count, "one for each episode"))
        if array is not None and len(array) != wanted:
            raise LobsDICEError(
                f"{key} has {plural(len(array), 'row')}, but the {plural(count, 'episode')} in "
                f"episode_lengths need {wanted:,} ({why})"
            )


def _check_source(source: np.ndarray | None, names: tuple[str, ...]) -> None:
    if source is None:
        return
    if (bad := np.flatnonzero((source < 0) | (source >= len(names)))).size:
        raise LobsDICEError(
            f"source, row {bad[0]}: there is no source {source[bad[0]]}, because source_names has "
            f"{plural(len(names), 'name')}, counted from 0"
        )


def _check_success(success: np.ndarray | None) -> None:
    if success is not None and (bad := np.flatnonzero((success < -1) | (success > 1))).size:
        raise LobsDICEError(
            f"success, row {bad[0]}: {success[bad[0]]} is not valid; it is 1, 0, or -1 if unknown"
        )


def check_finite(key: str, rows: np.ndarray) -> None:
    """Raise an error that names the first row and column with NaN or infinity."""
    for start, chunk in chunks(rows):
        # The minimum and the maximum show NaN and infinity without a large temporary array.
        if not np.isfinite([chunk.min(), chunk.max()]).all():
            row, column = np.argwhere(~np.isfinite(chunk))[0]
            raise LobsDICEError(
                f"{key}, row {start + row}, column {column}: {chunk[row, column]} is not a finite "
                "float32 number"
            )


def check_actions(actions: Actions, space: ActionSpace) -> None:
    """Raise an error that names the first action that does not belong to `space`."""
    if isinstance(space, Discrete) != (actions.dtype == np.int64):
        raise LobsDICEError(
            f"actions are {'integers' if actions.dtype == np.int64 else 'floats'}, "
            f"but the action space is {space}"
        )
    if isinstance(space, Box) and actions.shape[1] != space.size:
        raise LobsDICEError(
            f"actions has {plural(actions.shape[1], 'column')}, but its bounds have {space.size}"
        )
    for start, chunk in chunks(actions):
        if isinstance(space, Box):
            extremes = np.stack(column_range(chunk))
            if not np.isfinite(extremes).all():
                check_finite("actions", actions)
            if not space.outside(extremes).size:
                continue
        if (rows := space.outside(chunk)).size:
            action = chunk[rows[0]].tolist()
            raise LobsDICEError(
                f"actions, row {start + rows[0]}: {action} is outside {space}{_negative(action)}"
            )


def _negative(action: int | list[float]) -> str:
    """A hint on a discrete action below 0."""
    if isinstance(action, list) or action >= 0:
        return ""
    return (
        "; discrete actions count from 0: write choices as words, or set `action_kind` to "
        "'continuous' if they are amounts"
    )
