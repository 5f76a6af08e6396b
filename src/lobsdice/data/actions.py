"""Arrays of actions: their type, and the space of those that come without one."""

import numpy as np
from numpy.typing import ArrayLike

from lobsdice.data.checks import check_finite, numeric
from lobsdice.data.rows import column_range
from lobsdice.data.spaces import FLOAT32_MAX, Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError


def as_actions(actions: ArrayLike) -> Actions:
    """Integers of shape (steps,) for discrete actions, float32 of shape (steps, size) otherwise."""
    array = np.asarray(actions)
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise LobsDICEError(f"actions must be numbers, not {array.dtype}")
    if array.dtype.kind in "biu":
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise LobsDICEError(
                f"actions holds integers of shape {array.shape}; discrete actions are one integer "
                "a step, continuous actions must be floats"
            )
        return array.astype(np.int64, copy=False)
    if array.ndim == 1:
        array = array[:, None]
    return numeric("actions", array, np.float32, ndim=2)


def infer_space(actions: Actions) -> ActionSpace:
    """The space of actions that came without one.

    Integers: as many actions as the largest one needs. Reals: [-1, 1] where they all fit, otherwise
    the smallest and largest value of each column (widened where a column is constant).
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
    # A constant column needs some width; 1 would vanish in the rounding of very large values.
    margin = np.where(low == high, np.maximum(1, 1e-3 * np.abs(low)), 0)
    return Box.of(*np.clip([low - margin, high + margin], -FLOAT32_MAX, FLOAT32_MAX))
