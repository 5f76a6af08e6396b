"""Arrays of actions: their type, and the space of actions that come without one."""

import numpy as np
from numpy.typing import ArrayLike

from lobsdice.data.checks import check_finite, numeric
from lobsdice.data.rows import column_range
from lobsdice.data.spaces import FLOAT32_MAX, Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError


def with_space(actions: ArrayLike, space: ActionSpace | None) -> tuple[Actions, ActionSpace]:
    """The actions in the type of their space, and that space; without one, it is inferred."""
    typed = as_actions(actions)
    space = space or infer_space(typed)
    if isinstance(space, Box) and typed.dtype == np.int64:
        typed = typed[:, None].astype(np.float32)
    return typed, space


def as_actions(actions: ArrayLike) -> Actions:
    """Integers as discrete actions of shape (steps,), reals as float32 of shape (steps, size)."""
    array = np.asarray(actions)
    if array.dtype.kind not in "biuf":
        raise LobsDICEError(f"actions must be numbers, not {array.dtype}")
    if array.dtype.kind in "biu":
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise LobsDICEError(
                f"actions holds integers of shape {array.shape}; store discrete actions as one "
                "integer a step and continuous actions as floats"
            )
        return array.astype(np.int64, copy=False)
    if array.ndim == 1:
        array = array[:, None]
    return numeric("actions", array, np.float32, ndim=2)


def infer_space(actions: Actions) -> ActionSpace:
    """The space of these actions, inferred from their values.

    Integers count from 0 to the largest one. Reals have the bounds -1 and 1 if all of them fit,
    else the smallest and the largest value of each column. A constant column gets a margin.
    """
    if not len(actions):
        raise LobsDICEError("actions is empty")
    if actions.dtype == np.int64:
        return Discrete(max(int(actions.max()), 0) + 1)
    low, high = (x.astype(np.float64) for x in column_range(actions))
    if not np.isfinite([low, high]).all():
        check_finite("actions", actions)
    if (low >= -1).all() and (high <= 1).all():
        return Box.of(-np.ones_like(low), np.ones_like(high))
    # A margin of 1 would vanish in the rounding of very large values.
    margin = np.where(low == high, np.maximum(1, 1e-3 * np.abs(low)), 0)
    return Box.of(*np.clip([low - margin, high + margin], -FLOAT32_MAX, FLOAT32_MAX))
