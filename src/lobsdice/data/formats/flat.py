"""Episodes from flat transitions: files with one row a step.

Two flags in each row mark the ends of episodes: the environment ended the episode (terminal), or
the recording stopped (timeout). A file may also hold the next observation of each row. Then the
final state of every episode is known. An end without a flag is found too: there the next
observation differs from the observation of the next row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from jaxtyping import Bool, Float32

from lobsdice.data.checks import check_finite
from lobsdice.data.episodes import NUMBERS, Episodes
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.arrays import Arrays
from lobsdice.data.formats.columns import listed
from lobsdice.data.formats.metadata import (
    LABELS,
    SPACE,
    SUCCESS,
    flags_of,
    labels_of,
    space_of,
    success_of,
)
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.rows import CHUNK
from lobsdice.data.spaces import ActionSpace
from lobsdice.errors import LobsDICEError, plural

#: Rows read at a time: few enough for the processor's cache, enough to be worth a call.
BLOCK = 1 << 15

#: The most bytes of a buffer, however large the chunks of a compressed file are.
BUFFER_BYTES = 96 << 20

OWN_LAYOUT = "; what h5py or NumPy can read becomes episodes with ld.Episodes.from_episodes"

#: The names of each column in files; the first one is D4RL's.
NAMES = {
    "observations": ("observations", "obs", "states"),
    "next_observations": ("next_observations", "next_obs", "next_states"),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "terminals": ("terminals", "dones", "terminated", "terminations"),
    "timeouts": ("timeouts", "truncated", "truncations"),
}

Flags = Bool[np.ndarray, " rows"]
Column = np.ndarray | h5py.Dataset


@dataclass(frozen=True)
class Flat:
    """The known columns of a flat file, all with the same number of rows."""

    columns: Mapping[str, Column]
    """The columns by their D4RL names, the keys of `NAMES`."""
    names: Mapping[str, str]
    """Their names in the file, by the same keys."""

    @classmethod
    def find(cls, stored: Arrays) -> "Flat":
        """The columns that are known."""
        names = {key: next((n for n in known if n in stored), None) for key, known in NAMES.items()}
        found = {key: name for key, name in names.items() if name is not None}
        for key in ("observations", "terminals"):
            if key not in found:
                names = listed(sorted(stored.names), none="no keys")
                hint = OWN_LAYOUT if stored.names else ""
                raise LobsDICEError(f"there is no '{key}'; the file has {names}{hint}")
        flat = cls({key: stored[name] for key, name in found.items()}, found)
        for key in found:
            flat.check(key)
        return flat

    def check(self, key: str) -> None:
        """Raise an error unless a column holds numbers and as many rows as the observations."""
        name, column = self.names[key], self.columns[key]
        if column.dtype.kind not in ("biufUS" if key == "actions" else "biuf"):
            raise LobsDICEError(f"{name} must be numbers, not {column.dtype}")
        wide = key in ("observations", "next_observations", "actions")
        shape = column.shape
        if not 1 <= len(shape) <= 2 or (not wide and len(shape) == 2 and shape[1] != 1):
            wanted = plural(2 if wide else 1, "dimension")
            raise LobsDICEError(f"{name} has the shape {shape}; it must have {wanted}")
        rows = self.columns["observations"].shape[0]
        if shape[0] != rows:
            raise LobsDICEError(f"{name} has {shape[0]} rows, but observations has {rows}")
        if rows == 0 or 0 in shape:
            raise LobsDICEError(f"{name} is empty: it has the shape {shape}")

    @property
    def rows(self) -> int:
        return self.columns["observations"].shape[0]

    def width(self, key: str) -> int:
        shape = self.columns[key].shape
        return shape[1] if len(shape) == 2 else 1


def read_flat(stored: Arrays, metadata: Arrays, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a flat file, and a sentence for each thing to warn of."""
    flat = Flat.find(stored)
    terminals = flags(flat, "terminals")
    ends = terminals | (flags(flat, "timeouts") if "timeouts" in flat.columns else False)
    ends[-1] = True
    actions, space, notices = _actions(flat, space_of(metadata.take(SPACE)), options)
    rewards = _rewards(flat)
    if "next_observations" in flat.columns:
        observations, notes = _with_next(flat, ends)
        last = np.flatnonzero(ends)
        lengths, terminated = np.diff(last, prepend=-1), terminals[last]
    else:
        observations, lengths, notes = _without_next(flat, ends)
        actions, rewards = (x if x is None else _compact(x, ~ends) for x in (actions, rewards))
        terminated = np.zeros(len(lengths), bool)
    success, more = _success((metadata, stored), ends)
    if success is not None and len(success) > len(lengths):  # episodes of one row are gone
        success = success[np.diff(np.flatnonzero(ends), prepend=-1) > 1]
    episodes = Episodes.from_arrays(
        observations,
        lengths=lengths,
        terminated=terminated,
        actions=actions,
        rewards=rewards,
        action_space=space,
        success=success,
        **_labels(metadata, len(lengths)),
        checked=NUMBERS,
    )
    return episodes, notices + notes + more


def _labels(metadata: Arrays, episodes: int) -> dict[str, Any]:
    labels = labels_of(metadata.take(key for key in LABELS if key not in SUCCESS))
    if len(labels["episode_names"]) != episodes:  # some are gone, or ends without a flag were found
        labels["episode_names"] = ()
    return labels


def _success(places: Sequence[Arrays], ends: Flags):
    """The success of each episode, and a warning if it is not valid."""
    found = [(name, place) for name in SUCCESS for place in places if name in place]
    if not found:
        return None, []
    name, place = found[0]
    try:
        flags = flags_of(name, place[name][()])
        return success_of(name, flags, np.diff(np.flatnonzero(ends), prepend=-1)), []
    except LobsDICEError as error:
        return None, [f"whether episodes succeeded was not read: {error}"]


def _actions(flat: Flat, space: ActionSpace | None, options: ReadOptions):
    if "actions" not in flat.columns:
        return None, None, []
    kind = flat.columns["actions"].dtype.kind
    if kind in "US":
        raw = np.asarray(flat.columns["actions"][()])
    else:
        raw = _whole(flat, "actions", np.float32 if kind == "f" else np.int64)
    return prepare_actions(raw, space, options)


def _rewards(flat: Flat) -> Float32[np.ndarray, " rows"] | None:
    if "rewards" not in flat.columns:
        return None
    rewards = _whole(flat, "rewards", np.float32)
    check_finite("rewards", rewards)
    return rewards[:, 0]


def flags(flat: Flat, key: str) -> Flags:
    """The marks of ends in a column."""
    values = np.asarray(flat.columns[key][()]).reshape(-1)
    flags = values.astype(bool)
    if values.dtype != bool and (bad := np.flatnonzero(values != flags)).size:
        raise LobsDICEError(f"{flat.names[key]}, row {bad[0]}: {values[bad[0]]} is neither 0 nor 1")
    return flags


def _with_next(flat: Flat, ends: Flags) -> tuple[Float32[np.ndarray, "states width"], list[str]]:
    """Return the states of all episodes, and warnings; add the ends without a flag to `ends`."""
    marked, begins = int(ends.sum()), np.append(False, ends)
    # Room for an end after every row. Memory that is never written to is not used.
    states = np.empty((2 * flat.rows, flat.width("observations")), np.float32)
    written, finite = 0, True
    for start, rows, pool in _blocks(flat):
        stop = start + rows + (start + rows == flat.rows)  # a final state follows the last row
        out = _interleave(pool, rows, begins[start:stop], states[written:])
        finite = finite and bool(np.isfinite([out.min(), out.max()]).all())
        written += len(out)
    for key in () if finite else ("observations", "next_observations"):
        check_finite(flat.names[key], _whole(flat, key, np.float32))
    states.resize((written, states.shape[1]), refcheck=False)
    ends[:] = begins[1:]
    if not (unmarked := int(ends.sum()) - marked):
        return states, []
    return states, [
        f"{plural(unmarked, 'unmarked episode end')} found, where the next observation is not the "
        "observation of the next row; these episodes count as truncated"
    ]


def _blocks(flat: Flat) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield the first row of each block, its number of rows, and a buffer, the same for all blocks.

    The first half of the buffer holds observations. The second half, one row longer, holds the next
    observation of the row before each of them.
    """
    columns = flat.columns["observations"], flat.columns["next_observations"]
    width, width_next = flat.width("observations"), flat.width("next_observations")
    if width_next != width:
        raise LobsDICEError(
            f"{flat.names['next_observations']} and {flat.names['observations']} must have equally "
            f"many columns, not {width_next} and {width}"
        )
    size = _block_rows(columns, width, flat.rows)
    pool = np.empty((2 * size + 1, width), np.float32)
    for start in range(0, flat.rows, size):
        rows = min(size, flat.rows - start)
        _fill(columns[0], start, pool[:rows])
        pool[size] = pool[2 * size if start else 0]  # there is no row before the first
        _fill(columns[1], start, pool[size + 1 : size + 1 + rows])
        yield start, rows, pool


def _interleave(pool: np.ndarray, rows: int, begins: Flags, out: np.ndarray) -> np.ndarray:
    """Write observations to `out`, with the final state of an episode before the next one.

    Mark the rows that begin an episode without a flag. Return the part of `out` that is written.
    """
    half, width = len(pool) // 2, pool.shape[1]
    begins[np.flatnonzero(pool[:rows] != pool[half : half + rows]) // width] = True
    before = np.flatnonzero(begins)
    index = np.insert(np.arange(rows), before, half + before)
    return np.take(pool, index, axis=0, out=out[: len(index)], mode="clip")


def _block_rows(columns: tuple[Column, ...], width: int, rows: int) -> int:
    """The number of rows that fit the processor's cache, in whole chunks of the file.

    A chunk that two blocks shared would be decompressed twice.
    """
    chunks = [c.chunks[0] for c in columns if isinstance(c, h5py.Dataset) and c.chunks]
    chunk = max(chunks, default=1)
    wanted = max(chunk, BLOCK // chunk * chunk)
    return max(1, min(wanted, rows, BUFFER_BYTES // (8 * width)))


def _fill(column: Column, start: int, out: np.ndarray) -> None:
    if isinstance(column, h5py.Dataset):
        shaped = out if len(column.shape) == 2 else out[:, 0]
        column.read_direct(shaped, np.s_[start : start + len(out)])
        return
    with np.errstate(over="ignore"):  # later checks report an overflow with its row
        out[...] = column[start : start + len(out)].reshape(out.shape)


def _whole(flat: Flat, key: str, dtype) -> np.ndarray:
    out = np.empty((flat.rows, flat.width(key)), dtype)
    _fill(flat.columns[key], 0, out)
    return out


def _without_next(flat: Flat, ends: Flags) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The states and the lengths of all episodes if there are no next observations, and warnings.

    The result of an episode's last action is then unknown. That action is dropped, and the last
    observation becomes the final state. An episode of one row has no transition and is dropped.
    """
    sizes = np.diff(np.flatnonzero(ends), prepend=-1)
    if (single := int((sizes == 1).sum())) == len(sizes):
        raise LobsDICEError(
            "no transition is left: without next_observations, episodes of one row have none"
        )
    observations = _whole(flat, "observations", np.float32)
    check_finite(flat.names["observations"], observations)
    if single:
        observations = _compact(observations, np.repeat(sizes > 1, sizes))
    gone = f", and {plural(single, 'episode')} of one row with them" if single else ""
    notices = [
        f"{plural(len(sizes), 'transition')} dropped{gone}, because without next_observations the "
        "result of an episode's last action is unknown; every episode counts as truncated"
    ]
    if "timeouts" not in flat.columns:
        notices.append(
            "the file has neither timeouts nor next_observations, so that only terminals mark the "
            "ends of episodes; truncated episodes are joined with the next one"
        )
    return observations, sizes[sizes > 1] - 1, notices


def _compact(rows: np.ndarray, keep: Flags) -> np.ndarray:
    """The rows to keep, moved to the front of the same array."""
    written = 0
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK][keep[start : start + CHUNK]]
        rows[written : written + len(part)] = part
        written += len(part)
    return rows[:written]
