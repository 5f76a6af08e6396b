"""robomimic's HDF5 files: one group a demonstration, one array for each part of the observation.

data                attributes: total, env_args
data/demo_7         attributes: num_samples
    obs/<key>       one row a step
    next_obs/<key>  optional: the state after each step
    actions, rewards, dones, states
mask/<name>         the names of the demonstrations of a subset
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.columns import choose, listed
from lobsdice.data.formats.hdf5 import dataset_in, member, metadata_of, names_in, new_file, put
from lobsdice.data.formats.metadata import (
    LABELS,
    SPACE,
    label_entries,
    labels_of,
    space_entries,
    space_of,
)
from lobsdice.data.formats.options import ReadOptions
from lobsdice.errors import LobsDICEError, plural

#: The keys of observations that are read without an option: robomimic's own choice of low
#: dimension. Without any of them, all vectors are read.
KEYS = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object")

#: The array that marks ends. What it means depends on how the file was made.
DONES = "dones"

#: The key of the observations in files that lobsdice wrote.
FLAT = "flat"


def is_robomimic(file: h5py.File) -> bool:
    """True if an HDF5 file has the groups of robomimic."""
    group = member(file, "data") if "data" in names_in(file) else None
    return isinstance(group, h5py.Group) and any(map(_number, names_in(group)))


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The demonstrations of a file, and warnings."""
    with h5py.File(path, "r") as file:
        if not is_robomimic(file):
            raise LobsDICEError("there is no group data/demo_0, as robomimic's files have")
        return read_demos(file, options)


def read_demos(file: h5py.File, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The demonstrations of an open file, in the order of their numbers, and warnings."""
    group: Any = member(file, "data")
    names = _subset(file, sorted(filter(_number, names_in(group)), key=_number), options)
    keys, notices = _keys(_group(group, names[0]), options)
    stored = metadata_of(file)
    ours = "terminated" in stored  # then every step is real
    demos = [_demo(_group(group, name), name, keys, ours=ours) for name in names]
    return _assemble(demos, keys, stored, options, notices)


@dataclass(frozen=True)
class Demo:
    """The arrays of a demonstration, and what is wrong with its end."""

    observations: np.ndarray
    """T+1 rows."""
    actions: np.ndarray | None
    rewards: np.ndarray | None
    done: bool
    """True if `dones` marks the end. Files also mark where only the recording stopped."""
    fake: bool
    """True if the last transition was made up, from the last state to itself."""


def _assemble(
    demos: Sequence[Demo],
    keys: Sequence[str],
    stored: Any,
    options: ReadOptions,
    notices: list[str],
) -> tuple[Episodes, list[str]]:
    actions, space, found = None, None, []
    if all(demo.actions is not None for demo in demos):
        raw = np.concatenate([demo.actions for demo in demos if demo.actions is not None])
        actions, space, found = prepare_actions(raw, space_of(stored.take(SPACE)), options)
    rewards = [demo.rewards for demo in demos if demo.rewards is not None]
    labels = labels_of(stored.take(LABELS)) if len(demos) == _count(stored) else {}
    done = np.array([demo.done for demo in demos])
    trusted = options.terminated_column == DONES
    ended = stored["terminated"] if labels else done if trusted else np.zeros(len(demos), bool)
    episodes = Episodes.from_arrays(
        np.concatenate([demo.observations for demo in demos]),
        lengths=[len(demo.observations) - 1 for demo in demos],
        terminated=ended,
        actions=actions,
        rewards=np.concatenate(rewards) if len(rewards) == len(demos) else None,
        action_space=space,
        unread=(DONES,) if done.any() and not trusted and not labels else (),
        **({"observation_names": _names(demos, keys)} | labels),
        checked=("actions",),
    )
    return episodes, [*notices, *found, *_about(demos)]


def _about(demos: Sequence[Demo]) -> list[str]:
    if not (fake := sum(demo.fake for demo in demos)):
        return []
    return [
        f"the last step of {plural(fake, 'demonstration')} leads from a state to itself, as "
        "conversion from D4RL writes it; it was left out, and its mark of an end, too"
    ]


def _demo(group: h5py.Group, name: str, keys: Sequence[str], *, ours: bool) -> Demo:
    observations = _states(_group(group, "obs"), keys, name)
    here = names_in(group)
    actions, rewards, dones = (
        np.asarray(dataset_in(group, key)[()]) if key in here else None
        for key in ("actions", "rewards", DONES)
    )
    rewards = None if rewards is None else np.ravel(rewards)
    done = dones is not None and bool(np.ravel(dones)[-1:].any())
    steps = len(observations)
    for key, array in (("actions", actions), ("rewards", rewards), (DONES, dones)):
        if array is not None and len(array) != steps:
            raise LobsDICEError(f"{name}: {key} has {len(array)} rows instead of {steps}")
    if "next_obs" in here:
        after = _states(_group(group, "next_obs"), keys, name)
        if len(after) != steps:
            raise LobsDICEError(f"{name}: next_obs has {len(after)} rows instead of {steps}")
        if not done or ours or not np.array_equal(after[-1], observations[-1]):
            rows = np.concatenate([observations, after[-1:]])
            return Demo(rows, actions, rewards, done, fake=False)
        return _shortened(observations, actions, rewards, name, done=False, fake=True)
    return _shortened(observations, actions, rewards, name, done=done, fake=False)


def _shortened(observations, actions, rewards, name: str, *, done: bool, fake: bool) -> Demo:
    """The demonstration without its last action, whose result is unknown."""
    if len(observations) < 2:
        raise LobsDICEError(f"{name} has only one state, so that there is no transition")
    actions = None if actions is None else actions[:-1]
    rewards = None if rewards is None else np.ravel(rewards)[:-1]
    return Demo(observations, actions, rewards, done, fake)


def _states(group: h5py.Group, keys: Sequence[str], name: str) -> np.ndarray:
    """The chosen parts of the observations, side by side."""
    parts = []
    for key in keys:
        if key not in group:
            raise LobsDICEError(f"{name}: there is no {group.name}/{key}")
        part = np.asarray(dataset_in(group, key)[()], np.float32)
        parts.append(part.reshape(len(part), -1))
    if len({len(part) for part in parts}) > 1:
        raise LobsDICEError(f"{name}: parts of the observations differ in their number of rows")
    return np.concatenate(parts, axis=1)


def _keys(demo: h5py.Group, options: ReadOptions) -> tuple[tuple[str, ...], list[str]]:
    """The keys of the observations, and a warning if they were chosen here."""
    group = _group(demo, "obs")
    vectors = [key for key in names_in(group) if dataset_in(group, key).ndim <= 2]
    if options.observation_columns:
        return choose(vectors, options.observation_columns, "observation"), []
    if vectors == [FLAT]:
        return (FLAT,), []
    chosen = tuple(key for key in KEYS if key in vectors)
    if chosen:
        return chosen, []
    if not vectors:
        raise LobsDICEError(f"no observation is a vector: there are {listed(names_in(group))}")
    return tuple(vectors), [
        f"all vectors were taken as observations: {listed(vectors)}; `observation_columns` chooses"
    ]


def _names(demos: Sequence[Demo], keys: Sequence[str]) -> tuple[str, ...]:
    width = demos[0].observations.shape[1]
    return tuple(keys) if len(keys) == width else ()


def _subset(file: h5py.File, names: list[str], options: ReadOptions) -> list[str]:
    """The demonstrations of the mask that the options name, in the order of their numbers."""
    if options.subset is None:
        return names
    masks: Any = member(file, "mask") if "mask" in names_in(file) else None
    known = names_in(masks) if isinstance(masks, h5py.Group) else []
    if options.subset not in known:
        raise LobsDICEError(f"there is no mask '{options.subset}'; the file has {listed(known)}")
    cells = np.ravel(_texts(masks, options.subset))
    wanted = {cell.decode() if isinstance(cell, bytes) else str(cell) for cell in cells.tolist()}
    if missing := next((name for name in sorted(wanted) if name not in names), None):
        raise LobsDICEError(f"mask '{options.subset}': there is no data/{missing}")
    if not wanted:
        raise LobsDICEError(f"mask '{options.subset}' is empty")
    return [name for name in names if name in wanted]


def _texts(masks: h5py.Group, name: str) -> np.ndarray:
    return np.asarray(dataset_in(masks, name, texts=True)[()])


def _group(group: h5py.Group, name: str) -> h5py.Group:
    found = member(group, name) if name in group else None
    if not isinstance(found, h5py.Group):
        raise LobsDICEError(f"there is no group {group.name}/{name}")
    return found


def _number(name: str) -> int:
    """The number of a demonstration, from 1; 0 for another name. demo_10 comes after demo_9."""
    found = re.fullmatch(r"demo_(\d{1,12})", name)
    return int(found[1]) + 1 if found else 0


def _count(stored: Any) -> int:
    return len(np.ravel(stored["terminated"])) if "terminated" in stored else -1


def write(path: Path, episodes: Episodes) -> None:
    """Write robomimic's groups, with `next_obs` so that no final state is lost."""
    with atomic(path) as temporary, new_file(temporary) as file:
        data = file.create_group("data")
        data.attrs["total"] = episodes.steps
        data.attrs["env_args"] = '{"env_name": "unknown", "env_type": 1, "env_kwargs": {}}'
        for i, (start, first) in enumerate(zip(episodes.starts, episodes.step_starts, strict=True)):
            length = int(episodes.lengths[i])
            steps = slice(first, first + length)
            rows = episodes.observations[start : start + length + 1]
            group = data.create_group(f"demo_{i}")
            group.attrs["num_samples"] = length
            group[f"obs/{FLAT}"], group[f"next_obs/{FLAT}"] = rows[:-1], rows[1:]
            group["dones"] = (np.arange(length) == length - 1) & bool(episodes.terminated[i])
            if episodes.actions is not None:
                group["actions"] = episodes.actions[steps]
            if episodes.rewards is not None:
                group["rewards"] = episodes.rewards[steps]
        entries = space_entries(episodes.action_space) | label_entries(episodes)
        put(file, entries | {"terminated": episodes.terminated})
