"""Episodes from objects in memory: tables, arrays of transitions, and what other libraries hold.

Libraries are recognised by the attributes of their objects, so that none is imported.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import explained, finished
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.arrays import Arrays
from lobsdice.data.formats.columns import Layout
from lobsdice.data.formats.flat import NAMES, read_flat
from lobsdice.data.formats.metadata import SUCCESS, flags_of, space_entries
from lobsdice.data.formats.options import DEFAULTS, ReadOptions, read_options
from lobsdice.data.formats.table import from_table
from lobsdice.data.spaces import ActionSpace
from lobsdice.errors import DataWarning, LobsDICEError, plural

#: The names of each part of an episode in the objects of other libraries.
PARTS = {
    "observations": ("observations", "obs", "states"),
    "actions": ("actions", "acts"),
    "rewards": ("rewards", "rews"),
    "terminated": ("terminated", "terminal", "terminations", "terminals"),
    "success": SUCCESS,
}


# ---- Tables ----


def from_dataframe(frame: Any, **options: Any) -> Episodes:
    """Episodes from a table of pandas, polars, pyarrow or any other with Arrow's interface."""
    chosen = read_options(DEFAULTS, options)
    with explained("the table"):
        table = _table(frame)
        layout = Layout.find(table.column_names, chosen)
        found = from_table(table.select(layout.names), layout, chosen)
    return finished("the table", *found, chosen)


def _table(frame: Any) -> pa.Table:
    if isinstance(frame, Mapping):
        return pa.table({str(key): np.asarray(column) for key, column in frame.items()})
    if hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
        return table.cast(pa.schema(f.with_type(_without_views(f.type)) for f in table.schema))
    if hasattr(frame, "__dataframe__"):
        from pyarrow.interchange import from_dataframe as exchanged

        return exchanged(frame)
    raise LobsDICEError(
        f"a value of type {type(frame).__name__} is not a table; give one of pandas, polars or "
        "pyarrow, or a dictionary of columns"
    )


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow stores texts itself, for those of polars."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


# ---- Transitions ----


def from_transitions(
    observations: Any,
    *,
    action_space: ActionSpace | None = None,
    options: ReadOptions = DEFAULTS,
    **arrays: Any,
) -> Episodes:
    """Episodes from arrays with one row a step, or from an object that holds them."""
    stored = _of_object(observations) or {"observations": _rows(observations)}
    given = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
    known = {"terminated": "terminals", "truncated": "timeouts"}
    allowed = {*NAMES, *known, *SUCCESS}
    if unknown := next((key for key in given if key not in allowed), None):
        raise LobsDICEError(f"transitions have no array {unknown!r}; there are {sorted(allowed)}")
    stored = stored | {known.get(key, key): array for key, array in given.items()}
    stored.setdefault("terminals", np.zeros(len(stored["observations"]), bool))
    metadata = {**stored, **space_entries(action_space)}
    with explained("the transitions"):
        found = read_flat(_arrays(stored), _arrays(metadata), options)
    return finished("the transitions", *found, options)


def _arrays(stored: Mapping[str, np.ndarray]) -> Arrays[np.ndarray]:
    return Arrays(stored, stored.__getitem__)


def _of_object(holder: Any) -> dict[str, np.ndarray]:
    """The arrays of a replay buffer of Stable-Baselines3, or of imitation's transitions.

    Empty if it is an array itself. Imitation's transitions are also a sequence, of dictionaries.
    """
    if all(hasattr(holder, name) for name in ("observations", "dones", "pos", "full")):
        return _of_buffer(holder)
    if all(hasattr(holder, name) for name in ("obs", "acts", "next_obs", "dones")):
        return {
            "observations": _rows(holder.obs),
            "next_observations": _rows(holder.next_obs),
            "actions": np.asarray(holder.acts),
            "terminals": np.asarray(holder.dones, bool),
        }
    if _is_array(holder):
        return {}
    raise LobsDICEError(
        f"a value of type {type(holder).__name__} holds no transitions; give arrays, a replay "
        "buffer of Stable-Baselines3, or transitions of imitation"
    )


def _of_buffer(buffer: Any) -> dict[str, np.ndarray]:
    """The rows of a buffer in the order of time, one environment after the other."""
    size, stop = len(buffer.dones), int(buffer.pos)
    order = (np.arange(size) + stop) % size if buffer.full else np.arange(stop)
    after = getattr(buffer, "next_observations", None)
    shared = after is None
    if shared:  # with `optimize_memory_usage`, the next row holds the next observation
        after = np.roll(_deep(buffer.observations), -1, axis=0)
        order = order[1:] if buffer.full else order  # the oldest state has been replaced
    if not len(order):
        raise LobsDICEError("the replay buffer is empty")
    dones = np.asarray(buffer.dones)[order] != 0
    limits = getattr(buffer, "timeouts", None)
    timeouts = np.zeros_like(dones) if limits is None else np.asarray(limits)[order] != 0
    stops = timeouts.copy()
    stops[-1] = True  # the recording of each environment stops there
    flat = {
        "observations": _deep(buffer.observations)[order],
        "next_observations": _deep(after)[order],
        "actions": np.asarray(buffer.actions)[order],
        "rewards": np.asarray(buffer.rewards)[order],
        "terminals": dones & ~timeouts,
        "timeouts": stops,
    }
    rows = {key: _by_environment(array) for key, array in flat.items()}
    return _without_last_steps(rows, len(order)) if shared else rows


def _without_last_steps(rows: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """The rows of a buffer without the last step of each episode, whose result was replaced.

    The first observation of the next episode is in its place. The newest of an environment's
    `steps` rows has none after it.
    """
    newest = np.arange(len(rows["terminals"])) % steps == steps - 1
    gone = (rows["terminals"] | rows["timeouts"]) & ~newest
    if gone.any():
        warnings.warn(
            f"the transitions: the last step of {plural(int(gone.sum()), 'episode')} left out, "
            "because the buffer does not keep its result (`optimize_memory_usage`); these episodes "
            "count as truncated",
            DataWarning,
            stacklevel=6,
        )
    stops = rows["timeouts"] | np.roll(gone, -1)
    return {key: array[~gone] for key, array in {**rows, "timeouts": stops}.items()}


def _by_environment(array: np.ndarray) -> np.ndarray:
    rows = np.swapaxes(array, 0, 1)
    return rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])


def _deep(values: Any) -> np.ndarray:
    """The observations of a buffer, whose first two axes are time and environment."""
    parts = values.values() if isinstance(values, Mapping) else [values]
    arrays = [np.asarray(part) for part in parts]
    return np.concatenate([a.reshape(*a.shape[:2], -1) for a in arrays], axis=2)


# ---- Episodes ----


def from_episodes(
    episodes: Any, *, action_space: ActionSpace | None = None, options: ReadOptions = DEFAULTS
) -> Episodes:
    """Episodes from a list with one object for each, or from a dataset with such a list."""
    items = getattr(episodes, "episodes", episodes)
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        items = [items]
    with explained("the episodes"):
        found = [_parts(item, number) for number, item in enumerate(items)]
        if not found:
            raise LobsDICEError("there are none")
        cut = sum(part["cut"] for part in found)
        whole, notices = _joined(found, action_space, options)
    if cut:
        notices.append(
            f"the last action of {plural(cut, 'episode')} left out, because no observation follows "
            "it; these episodes count as truncated"
        )
    return finished("the episodes", whole, notices, options)


def _joined(
    found: Sequence[dict[str, Any]], space: ActionSpace | None, options: ReadOptions
) -> tuple[Episodes, list[str]]:
    actions, notices = None, []
    if all(part["actions"] is not None for part in found):
        raw = np.concatenate([part["actions"] for part in found])
        actions, space, notices = prepare_actions(raw, space, options)
    rewards = [part["rewards"] for part in found if part["rewards"] is not None]
    whole = Episodes.from_arrays(
        np.concatenate([part["observations"] for part in found]),
        lengths=[len(part["observations"]) - 1 for part in found],
        terminated=[part["terminated"] for part in found],
        actions=actions,
        rewards=np.concatenate(rewards) if len(rewards) == len(found) else None,
        action_space=None if actions is None else space,
        success=[part["success"] for part in found],
        checked=("actions",),
    )
    return whole, notices


def _parts(item: Any, number: int) -> dict[str, Any]:
    """The arrays of an episode: T+1 observations and T of all others."""
    values = {key: _part(item, names) for key, names in PARTS.items()}
    if values["observations"] is None:
        raise LobsDICEError(
            f"episode {number}: a value of type {type(item).__name__} has no observations; give "
            "dictionaries with observations, actions, rewards and terminated"
        )
    rows = _rows(values["observations"])
    actions, rewards = (_array(values[key]) for key in ("actions", "rewards"))
    cut = actions is not None and len(actions) == len(rows)
    if actions is not None and cut:  # the result of the last action was not recorded
        actions = actions[:-1]
        rewards = None if rewards is None else rewards[: len(actions)]
    ended = bool(np.ravel(_array(values["terminated"]))[-1:].any()) if not cut else False
    success = values["success"]
    return {
        "observations": rows,
        "actions": actions,
        "rewards": None if rewards is None else np.ravel(rewards),
        "terminated": False if values["terminated"] is None else ended,
        "success": -1 if success is None else int(flags_of("success", np.ravel(success)).max()),
        "cut": cut,
    }


def _part(item: Any, names: Sequence[str]) -> Any:
    for name in names:
        if isinstance(item, Mapping) and name in item:
            return item[name]
        if not isinstance(item, Mapping) and hasattr(item, name):
            return getattr(item, name)
    return None


def _array(values: Any) -> Any:
    return None if values is None else np.asarray(values)


def _is_array(values: Any) -> bool:
    return isinstance(values, Mapping | Sequence | np.ndarray) or hasattr(values, "__array__")


def _rows(values: Any) -> np.ndarray:
    """Observations as one row of numbers each; parts of a dictionary are put side by side."""
    if isinstance(values, Mapping):
        return np.concatenate([_rows(part) for part in values.values()], axis=1)
    inner = getattr(values, "_d", None)  # imitation's observations in parts
    if isinstance(inner, Mapping):
        return _rows(inner)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise LobsDICEError(f"observations must be arrays of numbers, not {array.dtype}")
    return array.reshape(len(array), -1)
