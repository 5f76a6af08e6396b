"""The actions of a file, in their final type and with their action space."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lobsdice.data.actions import as_actions, infer_space, numbered_texts
from lobsdice.data.checks import check_actions
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.scale import scaled_actions
from lobsdice.data.rows import chunks, column_range
from lobsdice.data.spaces import Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError

#: Whole numbers up to this one may be choices.
MOST_CHOICES = 20


def prepare_actions(
    raw: np.ndarray, stored: ActionSpace | None, options: ReadOptions, names: Sequence[str] = ()
) -> tuple[Actions, ActionSpace, list[str]]:
    """The actions in their final type, their space, and a sentence for each thing to warn of.

    The space is that of the options, else that stored in the file, else inferred from the actions.
    The rows must still be those of the file, because errors name them. `names` are those of the
    columns. Texts are names of discrete actions.
    """
    if raw.dtype.kind in "US":
        return _named(raw, stored, options)
    size = raw.shape[1] if raw.ndim == 2 else 1
    names = (stored.names if stored else ()) or (tuple(names) if len(names) == size else ())
    raw, stored, names = scaled_actions(raw, stored, names, options)
    space = options.action_space(size) or stored
    actions = _typed(raw, space, options)
    if space is not None:
        check_actions(actions, space)
        return actions, _with_names(space, names), []
    space = infer_space(actions)
    if isinstance(space, Discrete):  # negative integers; an inferred box holds all actions
        check_actions(actions, space)
    space = _with_names(space, names)
    return actions, space, guess(space, actions)


def _named(raw: np.ndarray, stored: ActionSpace | None, options: ReadOptions):
    if options.action_kind == "continuous" or options.action_low or isinstance(stored, Box):
        raise LobsDICEError(f"actions are texts, such as {str(raw.flat[0])[:60]!r}, not numbers")
    actions, space = numbered_texts(raw, stored)
    if options.action_count not in (None, space.n):
        raise LobsDICEError(
            f"`action_count` is {options.action_count}, but the actions have {space.n} names"
        )
    return actions, space, []


def _with_names(space: ActionSpace, names: tuple[str, ...]) -> ActionSpace:
    """The space with the names of columns; those of discrete actions are in the file, if known."""
    return replace(space, names=names) if isinstance(space, Box) and names else space


def _typed(raw: np.ndarray, space: ActionSpace | None, options: ReadOptions) -> Actions:
    kind = options.action_kind
    if kind == "continuous" and raw.dtype.kind in "biu":
        return as_actions(raw.astype(np.float32))
    if (kind == "discrete" or isinstance(space, Discrete)) and raw.dtype.kind == "f":
        return _whole(raw)
    if isinstance(space, Box) and raw.dtype.kind in "biu":
        raise LobsDICEError(
            "actions holds integers, but has bounds, as only real numbers do; store the actions as "
            "floats, or set `action_kind` to 'continuous'"
        )
    return as_actions(raw)


def _whole(raw: np.ndarray) -> Actions:
    rows = raw.reshape(len(raw), -1)
    # NaN and infinity are found here too, because neither equals its integer.
    with np.errstate(invalid="ignore"):
        whole = rows.astype(np.int64)
    if (bad := np.flatnonzero((whole != rows).any(axis=1))).size:
        raise LobsDICEError(
            f"actions, row {bad[0]}: {rows[bad[0]].tolist()} is not a whole number, as discrete "
            "actions must be"
        )
    return as_actions(whole)


class Guess(str):
    """A sentence about what was assumed of the actions of one file."""


def guess(space: ActionSpace, actions: Actions) -> list[str]:
    """A sentence that says what was assumed about the actions, unless it is usual."""
    return [Guess(sentence) for sentence in _guesses(space, actions)]


def _guesses(space: ActionSpace, actions: Actions) -> list[str]:
    if isinstance(space, Discrete):
        unused = "" if (actions == 0).any() else "; actions count from 0, but 0 never occurs"
        return [
            f"the file does not say how many actions there are; {space.n} were assumed, from the "
            f"largest action in it{unused}"
        ]
    if found := _choices(actions):
        return found
    if set(space.low) == {-1.0} and set(space.high) == {1.0}:
        return _unused(actions, space.names)
    return [
        "the file has no bounds of the actions; its smallest and largest actions were taken: "
        f"low {_short(space.low)}, high {_short(space.high)}"
    ]


def _choices(actions: Actions) -> list[str]:
    """A sentence if real numbers look like choices, of which a policy would take the mean.

    One column holds few whole numbers, because pandas stores integers with gaps as reals. Or each
    row has a single 1 among zeros.
    """
    low, high = column_range(actions)
    wide = actions.shape[1] > 1
    if low.min() < 0 or high.max() > (1 if wide else MOST_CHOICES) or low.min() == high.max():
        return []
    if not all(_whole_numbers(rows, single=wide) for _, rows in chunks(actions)):
        return []
    if wide:
        return [
            "each action is a single 1 among zeros, and was read as real numbers; if it is a "
            "choice, store the number of its column, or its name"
        ]
    return [
        f"the actions are the whole numbers {low[0]:.0f} to {high[0]:.0f}, but are stored as real "
        "numbers; if they are choices, set `action_kind` to 'discrete', else state `action_low` "
        "and `action_high`"
    ]


def _whole_numbers(rows: np.ndarray, *, single: bool) -> bool:
    """True if all numbers are whole, and if only one of each row is not 0, where that is asked."""
    whole = (rows == np.round(rows)).all()
    return bool(whole and (not single or ((rows != 0).sum(axis=1) == 1).all()))


def _unused(actions: Actions, names: Sequence[str]) -> list[str]:
    """A sentence if actions use little of [-1, 1]: a policy's actions may use all of it."""
    low, high = column_range(actions)
    narrow = np.flatnonzero(high - low <= 1)
    return [
        "the file has no bounds of the actions; -1 and 1 were assumed, but the actions of column "
        f"{names[i] if names else i} lie in [{low[i]:.4g}, {high[i]:.4g}]; state `action_low` and "
        "`action_high`"
        for i in narrow[:1]
    ]


def _short(numbers: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{x:.4g}' for x in numbers)}]"
