"""Arrays of actions: their type, and the space of actions that come without one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Int64
from numpy.typing import ArrayLike

from lobsdice.data.checks import check_finite, numeric
from lobsdice.data.display import listed
from lobsdice.data.rows import column_range
from lobsdice.data.spaces import FLOAT32_MAX, Actions, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError

#: The most names of actions. More are texts of another kind, or numbers with a slip.
MOST_NAMES = 1000


def with_space(actions: ArrayLike, space: ActionSpace | None) -> tuple[Actions, ActionSpace]:
    """The actions in the type of their space, and that space; without one, it is inferred.

    Texts are names of discrete actions.
    """
    if (array := np.asarray(actions)).dtype.kind in "USO":
        return numbered_texts(array, space)
    typed = as_actions(actions)
    space = space or infer_space(typed)
    if isinstance(space, Box) and typed.dtype == np.int64:
        typed = typed[:, None].astype(np.float32)
    return typed, space


def numbered_texts(
    texts: ArrayLike, space: ActionSpace | None = None
) -> tuple[Int64[np.ndarray, " steps"], Discrete]:
    """The number of each action that is given by its name, and the space with all names.

    Without a space, the names are in the order of the alphabet, without blanks around them.
    """
    cells = np.asarray(texts)
    cells = cells[:, 0] if cells.shape[1:] == (1,) else cells
    if cells.ndim != 1 or not all(isinstance(cell, str | bytes) for cell in cells.tolist()):
        raise LobsDICEError("actions must be numbers, or one text a step")
    words = [cell.decode() if isinstance(cell, bytes) else cell for cell in cells.tolist()]
    known = space.names if isinstance(space, Discrete) else ()
    words = words if known else [word.strip() for word in words]
    if len(found := sorted({*words})) > MOST_NAMES and not known:
        raise LobsDICEError(f"actions has {len(found):,} different texts, too many to be actions")
    names = known or tuple(found)
    places = {name: i for i, name in enumerate(names)}
    if unknown := next((word for word in found if word not in places), None):
        raise LobsDICEError(f"actions: {unknown[:60]!r} is not one of {', '.join(names)[:200]}")
    return np.array([places[word] for word in words], np.int64), Discrete(len(names), names)


def case_remarks(space: ActionSpace | None) -> list[str]:
    """A sentence if names of actions differ only in capital letters, as of two loggers."""
    alike: dict[str, list[str]] = {}
    for name in space.names if isinstance(space, Discrete) else ():
        alike.setdefault(name.casefold(), []).append(repr(name))
    pairs = [" and ".join(names) for names in alike.values() if len(names) > 1]
    if not pairs:
        return []
    return [
        f"actions differ only in capital letters, and count as different ones: {listed(pairs, 3)}; "
        "write them alike if they are the same"
    ]


def in_space(actions: Actions, old: ActionSpace, new: ActionSpace) -> Actions:
    """The actions of a space with names as those of another one that has all of its names."""
    if not isinstance(old, Discrete) or not isinstance(new, Discrete) or old.names == new.names:
        return actions
    return np.array([new.names.index(name) for name in old.names], np.int64)[actions]


def common_space(
    spaces: Sequence[ActionSpace], actions: Sequence[np.ndarray]
) -> ActionSpace | None:
    """The space of the actions of several files; None if theirs cannot be the same.

    Spaces that were only assumed are assumed again, from all actions. Actions with names may lack
    some in some files.
    """
    if all(one == other for one, other in pairwise(spaces)):
        return spaces[0]
    if all(isinstance(space, Discrete) and space.names for space in spaces):
        names = tuple(dict.fromkeys(name for space in spaces for name in space.names))
        ordered = names if names == spaces[0].names else tuple(sorted(names))
        return Discrete(len(names), ordered)
    sizes = {space.size if isinstance(space, Box) else 0 for space in spaces}
    if len(sizes) > 1 or not all(space.assumed for space in spaces):
        return None
    return replace(infer_space(np.concatenate(actions)), names=spaces[0].names)


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
        return Discrete(max(int(actions.max()), 0) + 1, assumed=True)
    low, high = (x.astype(np.float64) for x in column_range(actions))
    if not np.isfinite([low, high]).all():
        check_finite("actions", actions)
    if (low >= -1).all() and (high <= 1).all():
        return replace(Box.of(-np.ones_like(low), np.ones_like(high)), assumed=True)
    # A margin of 1 would vanish in the rounding of very large values.
    margin = np.where(low == high, np.maximum(1, 1e-3 * np.abs(low)), 0)
    bounds = np.clip([low - margin, high + margin], -FLOAT32_MAX, FLOAT32_MAX)
    return replace(Box.of(*bounds), assumed=True)
