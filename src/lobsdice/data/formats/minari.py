"""Minari datasets in a folder or in the local cache, read by the minari package."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float
from pyarrow import ipc, parquet

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.foreign import check_claim, json_object, require_file
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.choice import with_chosen
from lobsdice.data.formats.hdf5 import check_contents, new_file
from lobsdice.data.formats.metadata import (
    BOUNDS,
    SUCCESS,
    flags_of,
    label_entries,
    labels_of,
    space_entries,
    success_of,
    texts,
)
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.parquet import read_columns
from lobsdice.data.spaces import FLOAT32_MAX, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError, require

METADATA = "metadata.json"

#: The file with the episodes of a dataset for the HDF5 backend.
HDF5 = "main_data.hdf5"

#: The entries that Minari needs, and their types.
REQUIRED = {
    "observation_space": str,
    "action_space": str,
    "total_episodes": int,
    "data_format": str,
}
KINDS = {str: "a text", int: "a whole number"}

#: Minari's backends.
FORMATS = ("hdf5", "arrow", "parquet")

#: The key of a dataset's metadata for the arrays that Minari has no place for.
OURS = "lobsdice"


def is_id(name: str) -> bool:
    """True if `name` has the form of a dataset's id, `namespace/name-v0`."""
    return re.fullmatch(r"(?:[-\w]+/)*[-\w]+-v\d+", name) is not None


def cached(dataset_id: str) -> Path | None:
    """The folder of a dataset in Minari's local cache, if it is there. Nothing is downloaded."""
    folder = _require("minari").storage.datasets_root_dir.get_dataset_path(dataset_id)
    return folder if folder.is_dir() else None


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a folder, and warnings; parts of an observation are put side by side."""
    folder = _data_folder(path)
    if folder is None:
        raise LobsDICEError(
            f"the folder is not a Minari dataset: it has neither data/{METADATA} nor {METADATA}"
        )
    _check_files(folder)
    metadata = _metadata(folder)
    minari = _require("minari")
    storage = minari.dataset.minari_storage.MinariStorage.read(folder)
    observe = _flattener(storage.observation_space, "observation")
    act, space = _actor(storage.action_space)
    parts = [
        _episode(data, observe, act) for data in storage.get_episodes(range(storage.total_episodes))
    ]
    if not parts:
        raise LobsDICEError("there are no episodes")
    return with_chosen(_assemble(metadata, parts, space, options), options)


def write(path: Path, episodes: Episodes) -> None:
    """Write a dataset for the HDF5 backend, in the layout of Minari's cache."""
    if path.is_dir() and any(path.iterdir()) and _data_folder(path) is None:
        raise LobsDICEError(
            f"{path}: the folder holds something else than a Minari dataset and was not replaced"
        )
    minari = _require("minari")
    observation_space, action_space = _spaces(episodes)
    with atomic(path) as temporary:
        folder = temporary.absolute() / "data"  # Minari cannot measure the size of a relative one
        folder.mkdir(parents=True)
        storage = minari.dataset.minari_storage.MinariStorage.new(
            folder, observation_space=observation_space, action_space=action_space
        )
        # Minari itself would write to the disk, with the faults that `new_file` describes.
        with new_file(folder / HDF5, track_order=True) as file:
            for i, part in enumerate(_parts(episodes)):
                _store(file.create_group(f"episode_{i}"), part, i)
        entries = label_entries(episodes) | space_entries(episodes.action_space)
        labels = {key: entries[key].tolist() for key in entries if key not in BOUNDS}
        storage.update_metadata(
            {
                "dataset_id": _id(path),
                "minari_version": minari.__version__,
                "total_episodes": len(episodes),
                "total_steps": episodes.steps,
                "dataset_size": storage.get_size(),
                OURS: labels,
            }
        )


def _store(group: h5py.Group, part: dict[str, Any], number: int) -> None:
    """Write an episode as Minari does, with chunks of arrays that can grow."""
    group.attrs["id"] = number
    group.attrs["total_steps"] = len(part["rewards"])
    for key, values in part.items():
        if isinstance(values, dict):
            group.create_group(key)
        else:
            limits = (None, *values.shape[1:])
            group.create_dataset(key, data=values, chunks=True, maxshape=limits)


def _data_folder(path: Path) -> Path | None:
    return next((f for f in (path / "data", path) if (f / METADATA).is_file()), None)


def _check_files(folder: Path) -> None:
    """Raise an error on what would make the libraries below hang or crash, or leave the folder."""
    for path in _files(folder):
        with _named(path.relative_to(folder)):
            require_file(path)
            if path.suffix == ".arrow":
                _check_arrow(path)
            elif path.suffix == ".parquet":
                read_columns(path, parquet.read_schema(path).names)
            elif path.suffix == ".hdf5":
                with h5py.File(path, "r") as file:
                    check_contents(file)


def _files(folder: Path) -> Iterator[Path]:
    """All files in a folder and in those below it."""
    for name, folders, files in os.walk(folder):
        here = Path(name)
        if link := next((f for f in folders if (here / f).is_symlink()), None):
            raise LobsDICEError(f"{link} is a link to a folder; copy that folder here")
        yield from (here / file for file in files)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the name of a file in the folder to our errors about it."""
    try:
        yield
    except LobsDICEError as error:
        raise LobsDICEError(f"{path}: {error}") from error


def _check_arrow(path: Path) -> None:
    size = path.stat().st_size
    with ipc.open_file(path) as reader:
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            batch.validate(full=True)
            check_claim("the table", batch.nbytes, size)


def _metadata(folder: Path) -> dict[str, Any]:
    """The metadata; an error if an entry is missing or has another type.

    Without spaces, Minari would run foreign code to find them.
    """
    with _named(Path(METADATA)):
        metadata = json_object((folder / METADATA).read_bytes())
        for key, kind in REQUIRED.items():
            if key not in metadata:
                raise LobsDICEError(f"there is no key '{key}'")
            if type(metadata[key]) is not kind:
                raise LobsDICEError(f"'{key}' must be {KINDS[kind]}, not {metadata[key]!r:.60}")
        if metadata["data_format"] not in FORMATS:
            raise LobsDICEError(f"'data_format' must be one of {', '.join(FORMATS)}")
        if not isinstance(metadata.get(OURS) or {}, dict):
            raise LobsDICEError(f"'{OURS}' must be an object in braces")
    return metadata


def _episode(data: dict, observe: Callable, act: Callable) -> dict[str, np.ndarray]:
    where = f"episode {data['id']}"
    part = {
        "observations": observe(data["observations"]),
        "actions": act(data["actions"]),
        "rewards": np.asarray(data["rewards"], np.float32).reshape(-1),
        "terminations": np.asarray(data["terminations"]).reshape(-1),
        "success": _info(data["infos"]),
    }
    steps = len(part["rewards"])
    for key, rows in (("observations", steps + 1), ("actions", steps), ("terminations", steps)):
        if part[key] is not None and len(part[key]) != rows:
            raise LobsDICEError(f"{where}: {key} has {len(part[key])} rows instead of {rows}")
    if not steps:
        raise LobsDICEError(f"{where} has no steps")
    return part


def _assemble(
    metadata: dict, parts: list[dict], stored: ActionSpace | None, options: ReadOptions
) -> tuple[Episodes, list[str]]:
    observations, rewards = (
        np.concatenate([part[key] for part in parts]) for key in ("observations", "rewards")
    )
    lengths = np.array([len(part["rewards"]) for part in parts])
    _check_total(lengths, metadata)
    ours = {key: np.array(value) for key, value in (metadata.get(OURS) or {}).items()}
    actions, space, notices = None, None, []
    if parts[0]["actions"] is not None:
        raw = np.concatenate([part["actions"] for part in parts])
        if stored is not None:
            stored = replace(stored, names=texts(ours, "action_names"))
        actions, space, notices = prepare_actions(raw, stored, options)
    labels, more = _success(parts)
    episodes = Episodes.from_arrays(
        observations,
        lengths=lengths,
        terminated=[bool(part["terminations"][-1]) for part in parts],
        actions=actions,
        # Minari demands rewards. Where there are none, we write NaN.
        rewards=None if np.isnan(rewards).all() else rewards,
        action_space=space,
        **(labels | labels_of(ours)),
        checked=("actions",),
    )
    return episodes, notices + more


def _info(infos: Any) -> np.ndarray:
    """The values in an episode's infos that tell success from failure; -1 if there are none."""
    name = next((name for name in SUCCESS if infos and name in infos), None)
    return np.array([-1]) if name is None else np.ravel(np.asarray(infos[name]))


def _success(parts: list[dict]) -> tuple[dict[str, Any], list[str]]:
    """The success of each episode as an argument of `from_arrays`; a warning if it is not valid."""
    values = [part["success"] for part in parts]
    try:
        flags = flags_of("infos/success", np.concatenate(values))
    except LobsDICEError as error:
        return {}, [f"whether episodes succeeded was not read: {error}"]
    sizes = np.array([len(value) for value in values])
    return {"success": success_of("infos/success", flags, sizes)}, []


def _check_total(lengths: np.ndarray, metadata: dict) -> None:
    """Raise an error if steps are lost, as Minari's Arrow backend does with very long episodes."""
    steps = int(lengths.sum())
    if steps != metadata.get("total_steps", steps):
        raise LobsDICEError(
            f"Minari reads {steps} steps, but {METADATA} says {metadata['total_steps']}"
        )


def _flattener(space: Any, what: str) -> Callable[[Any], Float[np.ndarray, "rows width"]]:
    """The function from values of a Gymnasium space to rows of numbers."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return lambda values: np.asarray(values).reshape(len(values), -1)
    if isinstance(space, spaces.Dict | spaces.Tuple) and space.spaces:
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        each = {key: _flattener(part, what) for key, part in parts}
        return lambda values: np.concatenate([f(values[key]) for key, f in each.items()], axis=1)
    raise LobsDICEError(f"the {what} space {space} is not a vector of real numbers")


def _actor(space: Any) -> tuple[Callable[[Any], np.ndarray | None], ActionSpace | None]:
    """The function from Minari's actions to ours, and their space if it is bounded."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise LobsDICEError(f"discrete actions must start at 0, not at {space.start}")
        return lambda values: np.asarray(values).reshape(-1), Discrete(int(space.n))
    if isinstance(space, spaces.Dict) and not space.spaces:
        return lambda values: None, None
    flatten, bounds = _flattener(space, "action"), None
    if isinstance(space, spaces.Box):
        finite = np.abs([space.low, space.high]).max(initial=0) <= FLOAT32_MAX
        bounds = Box.of(space.low, space.high) if finite else None
    return lambda values: flatten(values).astype(np.float32), bounds


def _spaces(episodes: Episodes) -> tuple[Any, Any]:
    from gymnasium import spaces

    observation = spaces.Box(-np.inf, np.inf, (episodes.state_size,), np.float32)
    space = episodes.action_space
    if space is None:
        return observation, spaces.Dict({})
    if isinstance(space, Discrete):
        return observation, spaces.Discrete(space.n)
    return observation, spaces.Box(np.array(space.low), np.array(space.high), dtype=np.float64)


def _parts(episodes: Episodes):
    actions = episodes.actions
    rewards = episodes.rewards
    if rewards is None:
        rewards = np.full(episodes.steps, np.nan, np.float32)
    for i, (start, first) in enumerate(zip(episodes.starts, episodes.step_starts, strict=True)):
        length = int(episodes.lengths[i])
        steps = slice(first, first + length)
        last = np.arange(length) == length - 1
        yield {
            "observations": episodes.observations[start : start + length + 1],
            "actions": {} if actions is None else actions[steps],
            "rewards": rewards[steps],
            "terminations": last & episodes.terminated[i],
            "truncations": last & ~episodes.terminated[i],
            "infos": {},
        }


def _id(path: Path) -> str:
    if is_id(path.name):
        return path.name
    return re.sub(r"[^-\w]", "_", path.name) + "-v0"


_require = partial(require, needed_by="a Minari dataset", extra="minari")
