"""From the action numbers of a file to actions with their space."""

import numpy as np

from lobsdice.data.actions import as_actions, infer_space
from lobsdice.data.checks import check_actions
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.rows import column_range
from lobsdice.data.spaces import Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError


def prepare_actions(
    raw: np.ndarray, stored: ActionSpace | None, options: ReadOptions
) -> tuple[Actions, ActionSpace, list[str]]:
    """The actions in their final type, their space, and what is worth telling the user.

    The space is the one of `options`, else the one stored in the file, else a guess from the data.
    Call it while the rows are still those of the file, because its errors name rows.
    """
    size = raw.shape[1] if raw.ndim == 2 else 1
    space = options.action_space(size) or stored
    actions = _typed(raw, space, options)
    if space is not None:
        check_actions(actions, space)
        return actions, space, []
    space = infer_space(actions)
    if isinstance(space, Discrete):  # a box holds the data that it was drawn around
        check_actions(actions, space)
    return actions, space, _guess(space, actions)


def _typed(raw: np.ndarray, space: ActionSpace | None, options: ReadOptions) -> Actions:
    kind = options.action_kind
    if kind == "continuous" and raw.dtype.kind in "biu":
        return as_actions(raw.astype(np.float32))
    if (kind == "discrete" or isinstance(space, Discrete)) and raw.dtype.kind == "f":
        return _whole(raw)
    if isinstance(space, Box) and raw.dtype.kind in "biu":
        raise LobsDICEError(
            "actions holds integers, but its bounds say that actions are real numbers: store them "
            "as floats, or read them with `action_kind` 'continuous'"
        )
    return as_actions(raw)


def _whole(raw: np.ndarray) -> Actions:
    rows = raw.reshape(len(raw), -1)
    # NaN and infinity fail here as well: neither equals its integer.
    with np.errstate(invalid="ignore"):
        whole = rows.astype(np.int64)
    if (bad := np.flatnonzero((whole != rows).any(axis=1))).size:
        raise LobsDICEError(
            f"actions row {bad[0]} is {rows[bad[0]].tolist()}, "
            "but discrete actions are whole numbers"
        )
    return as_actions(whole)


def _guess(space: ActionSpace, actions: Actions) -> list[str]:
    if isinstance(space, Discrete):
        unused = "" if (actions == 0).any() else "; they count from 0, which never occurs"
        return [
            f"the number of actions is not recorded; {space.n} was taken from the largest one seen"
            + unused
        ]
    if set(space.low) == {-1.0} and set(space.high) == {1.0}:
        return _unused(actions)
    return [
        "the bounds of the actions are not recorded and were taken from the data: "
        f"low {_short(space.low)}, high {_short(space.high)}"
    ]


def _unused(actions: Actions) -> list[str]:
    """A policy's actions may be anywhere within the bounds, and are scaled by them."""
    low, high = column_range(actions)
    narrow = np.flatnonzero(high - low <= 1)
    return [
        "the bounds of the actions are not recorded and were taken to be -1 and 1, but those of "
        f"column {i} lie in [{low[i]:.4g}, {high[i]:.4g}]; state `action_low` and `action_high`"
        for i in narrow[:1]
    ]


def _short(numbers: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{x:.4g}' for x in numbers)}]"
