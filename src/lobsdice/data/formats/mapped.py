"""Folders of columns: one array a file, which is read from the disk where it is needed.

    columns.json         names, the action space, and facts about all observations
    observations.npy     T+1 rows for each episode of T steps, one episode after the other
    actions.npy          T rows for each episode
    rewards.npy, lengths.npy, terminated.npy, source.npy, success.npy

The files are NumPy's. Nothing but the lengths is read before it is asked for, so that the data may
be larger than the memory. `Writer` writes them piece by piece.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float64

from lobsdice.data.actions import infer_space
from lobsdice.data.checks import check_actions
from lobsdice.data.episodes import (
    NUMBERS,
    Episodes,
    Facts,
    check_action_order,
    check_states,
)
from lobsdice.data.files import atomic
from lobsdice.data.formats.choice import with_chosen
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.rows import chunks, column_range
from lobsdice.data.spaces import ActionSpace, space_from_json
from lobsdice.errors import LobsDICEError

HEAD = "columns.json"
VERSION = 1
#: The columns with a row for each state or step, and those with an entry for each episode.
LONG, SHORT = NUMBERS, ("lengths", "terminated", "source", "success")
TYPES = {"lengths": np.int64, "terminated": np.bool_, "source": np.int64, "success": np.int64}


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes of a folder; observations, actions and rewards stay on the disk."""
    head = _head(path / HEAD)
    stored = [name for name in (*LONG, *SHORT) if (path / f"{name}.npy").exists()]
    columns: dict[str, Any] = {name: _column(path, name) for name in stored}
    if missing := {"observations", "lengths", "terminated"} - {*columns}:
        raise LobsDICEError(f"there is no '{min(missing)}.npy'")
    space = None
    if "actions" in columns:
        width = columns["actions"].shape[-1] if columns["actions"].ndim == 2 else 1
        space = options.action_space(width) or space_from_json(head.get("action_space"))
    names = {key: _texts(head, key) for key in ("source_names", "observation_names", "unread")}
    episodes = Episodes.from_arrays(
        **columns,
        action_space=space,
        **names,
        episode_names=_texts(head, "episode_names"),
        checked=NUMBERS,
    )
    stated = _facts(head, episodes.observations)
    return with_chosen((replace(episodes, stated=stated, valid=True), []), options)


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes as a folder of columns."""
    write_parts(path, [episodes])


def write_parts(path: Path, parts: Iterable[Episodes]) -> None:
    """Write the episodes of several parts, one after the other, as one folder of columns."""
    with atomic(path) as temporary, Writer(temporary) as writer:
        for part in parts:
            writer.add(part)


class Writer:
    """Writes a folder of columns piece by piece. Use it in a `with` block."""

    def __init__(self, folder: Path):
        folder.mkdir()
        self.folder = folder
        self.files: dict[str, _File] = {}
        self.short: dict[str, list[np.ndarray]] = {}
        self.moments = _Moments()
        self.spaces = _Spaces()
        self.model: Episodes | None = None
        """The first episode, whose columns all others must have."""
        self.sources: dict[str, int] = {}
        self.names: list[str] = []

    def __enter__(self) -> "Writer":
        return self

    def add(self, part: Episodes) -> None:
        """Write more episodes."""
        first = self.model is None
        if self.model is None:
            self.model = part.first(1)
        check_states("a later file", part, "the first one", self.model)
        check_action_order("a later file", part, "the first one", self.model)
        self.spaces.add(part)
        for name in LONG:
            self._append(name, getattr(part, name), first)
        source = part.source
        if source is not None:
            place = [self.sources.setdefault(n, len(self.sources)) for n in part.source_names]
            source = np.array(place, np.int64)[source]
        for name in SHORT:
            values = source if name == "source" else getattr(part, name)
            if (values is None) != (name not in self.short) and not first:
                raise LobsDICEError(f"some episodes have {name}, and others have none")
            if values is not None:
                self.short.setdefault(name, []).append(values)
        self.names += part.episode_names
        self.moments.add(part)

    def _append(self, name: str, values: np.ndarray | None, first: bool) -> None:
        if (values is None) != (name not in self.files) and not first:
            raise LobsDICEError(f"some episodes have {name}, and others have none")
        if values is None:
            return
        if first:
            self.files[name] = _File(self.folder / f"{name}.npy", values)
        self.files[name].add(values)

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        digest = hashlib.blake2b(digest_size=16)
        for file in self.files.values():
            digest.update(file.close())
        if error is not None:
            return
        if self.model is None:
            raise LobsDICEError("there are no episodes to write")
        short = {name: np.concatenate(values) for name, values in self.short.items()}
        for name, values in short.items():
            np.save(self.folder / f"{name}.npy", values)
            digest.update(values.data)
        known = len(self.names) == len(short["lengths"])
        head = {
            "format": "lobsdice columns",
            "version": VERSION,
            "observation_names": self.model.observation_names,
            "unread": self.model.unread,
            "state_size": self.model.state_size,
            "source_names": list(self.sources),
            "episode_names": self.names if known else [],
            "action_space": self.spaces.found and self.spaces.found.to_json(),
            **self.moments.to_json(),
            "digest": digest.hexdigest(),
        }
        (self.folder / HEAD).write_text(json.dumps(head))


class _File:
    """A file of NumPy's that grows. Its header is written again at the end."""

    def __init__(self, path: Path, values: np.ndarray):
        self.file: BinaryIO = path.open("wb")
        self.dtype, self.shape, self.rows = values.dtype, values.shape[1:], 0
        self.digest = hashlib.blake2b(digest_size=16)
        self._header()

    def _header(self) -> None:
        about = {"descr": self.dtype.str, "fortran_order": False}
        # NumPy leaves room in the header for a larger number of rows.
        np.lib.format.write_array_header_1_0(self.file, about | {"shape": (self.rows, *self.shape)})

    def add(self, values: np.ndarray) -> None:
        for _, piece in chunks(values):
            piece = np.ascontiguousarray(piece)
            self.digest.update(piece.data)
            self.file.write(piece.data)
        self.rows += len(values)

    def close(self) -> bytes:
        """Finish the file; return the hash of its numbers."""
        self.file.seek(0)
        self._header()
        self.file.close()
        return self.digest.digest()


class _Spaces:
    """The action space of all parts; one that is guessed is guessed from all actions together."""

    def __init__(self):
        self.found: ActionSpace | None = None
        self.extremes: np.ndarray | None = None

    def add(self, part: Episodes) -> None:
        space, actions = part.action_space, part.actions
        if actions is None or space is None:
            return
        if self.found is not None and not self.found.assumed:
            if not space.assumed and space != self.found:
                raise LobsDICEError(
                    f"some episodes have the action space {self.found}, others {space}; state the "
                    "bounds, the number or the names of actions"
                )
            return check_actions(actions, self.found)
        if not space.assumed:
            self.found = space
            return
        low, high = column_range(actions) if actions.ndim == 2 else (actions.min(), actions.max())
        extremes = np.stack([low, high])
        if self.extremes is not None:
            extremes = np.concatenate([self.extremes, extremes])
        self.extremes = np.stack([extremes.min(axis=0), extremes.max(axis=0)])
        self.found = replace(infer_space(self.extremes), names=space.names)


class _Moments:
    """The mean, deviation and range of the states before steps, merged part by part."""

    def __init__(self):
        self.count, self.mean, self.squares = 0, np.zeros(0), np.zeros(0)
        self.low, self.high = np.zeros(0), np.zeros(0)

    def add(self, part: Episodes) -> None:
        final = np.zeros(len(part.observations), bool)
        final[part.ends] = True
        for start, piece in chunks(part.observations):
            self._merge(piece[~final[start : start + len(piece)]].astype(np.float64))
        low, high = column_range(part.observations)
        self.low = np.minimum(self.low, low) if len(self.low) else low
        self.high = np.maximum(self.high, high) if len(self.high) else high

    def _merge(self, states: Float64[np.ndarray, "n state"]) -> None:
        """Add states by the pairwise formula of Chan, Golub and LeVeque (1983)."""
        if not len(states):
            return
        if not self.count:
            self.mean = self.squares = np.zeros(states.shape[1])
        mean, total = states.mean(axis=0), self.count + len(states)
        apart = mean - self.mean
        self.squares = (
            self.squares
            + ((states - mean) ** 2).sum(axis=0)
            + apart**2 * (self.count * len(states) / total)
        )
        self.mean, self.count = self.mean + apart * (len(states) / total), total

    def to_json(self) -> dict[str, Any]:
        found = {
            "mean": self.mean,
            "deviation": np.sqrt(self.squares / self.count),
            "low": self.low,
            "high": self.high,
        }
        return {key: values.astype(np.float64).tolist() for key, values in found.items()}


def _head(path: Path) -> dict[str, Any]:
    try:
        head = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LobsDICEError(f"{path.name} cannot be read: it is not JSON") from error
    if not isinstance(head, dict) or head.get("format") != "lobsdice columns":
        raise LobsDICEError(f"{path.name} does not describe columns of lobsdice")
    if head.get("version") != VERSION:
        raise LobsDICEError(
            f"it has version {head.get('version')} of this format; this lobsdice reads {VERSION}"
        )
    return head


def _column(folder: Path, name: str) -> np.ndarray:
    path = folder / f"{name}.npy"
    try:
        column = np.load(path, mmap_mode="r" if name in LONG else None, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise LobsDICEError(f"{path.name} is damaged ({error})") from error
    wanted = {"observations": "f4", "rewards": "f4"}.get(name)
    if name == "actions":
        wanted = "f4" if column.ndim == 2 else "i8"
    wanted = np.dtype(wanted or TYPES[name])
    if column.dtype != wanted or column.ndim != 1 + (wanted == "f4" and name != "rewards"):
        raise LobsDICEError(
            f"{path.name} has the type {column.dtype} and {column.ndim} dimensions; it must hold "
            f"{wanted} as `lobsdice data convert --columns` writes it"
        )
    return column


def _texts(head: dict[str, Any], key: str) -> tuple[str, ...]:
    values = head.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise LobsDICEError(f"{HEAD}: {key} must be a list of texts")
    return tuple(values)


def _facts(head: dict[str, Any], observations: np.ndarray) -> Facts:
    try:
        keys = ("mean", "deviation", "low", "high")
        found = [np.array(head[key], np.float64) for key in keys]
        if any(values.shape != observations.shape[1:] for values in found):
            raise ValueError("there must be one number a column")
        if not np.isfinite(found).all():
            raise ValueError("a number is not finite")
    except (KeyError, TypeError, ValueError) as error:
        raise LobsDICEError(
            f"{HEAD}: the facts about observations are damaged ({error})"
        ) from error
    return Facts(observations, *found, digest=str(head.get("digest")))
