"""NumPy archives: our own format of episodes, and flat transitions."""

import os
import zipfile
from math import prod
from pathlib import Path

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.foreign import check_claim
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.arrays import Arrays
from lobsdice.data.formats.choice import with_chosen
from lobsdice.data.formats.columns import listed
from lobsdice.data.formats.flat import NAMES, read_flat
from lobsdice.data.formats.metadata import (
    LABELS,
    SPACE,
    SUCCESS,
    flags_of,
    label_entries,
    labels_of,
    space_entries,
    space_of,
)
from lobsdice.data.formats.options import ReadOptions
from lobsdice.errors import LobsDICEError

#: The end of the names of an archive's members.
SUFFIX = ".npy"

REQUIRED = ("observations", "episode_lengths", "terminated")

#: The warning about an episode with as many actions as observations.
CUT = "the last action left out, because no observation follows it; the episode counts as truncated"


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in an archive of our own format or of flat transitions, and warnings."""
    with zipfile.ZipFile(path) as archive:
        names = [name[: -len(SUFFIX)] for name in archive.namelist() if name.endswith(SUFFIX)]
        arrays = Arrays(names, lambda name: _load(archive, name))
        if "episode_lengths" in arrays:
            return with_chosen(_read_ours(arrays, options), options)
        if options.one_episode and not any(name in arrays for name in NAMES["terminals"][:2]):
            return with_chosen(_read_one(arrays, options), options)
        return with_chosen(read_flat(arrays, arrays, options), options)


def _read_ours(arrays: Arrays[np.ndarray], options: ReadOptions) -> tuple[Episodes, list[str]]:
    for key in REQUIRED:
        if key not in arrays:
            raise LobsDICEError(f"there is no '{key}'; the file has {listed(list(arrays.names))}")
    actions, space, notices = None, None, []
    if "actions" in arrays:
        actions, space, notices = prepare_actions(
            arrays["actions"], space_of(arrays.take(SPACE)), options
        )
    episodes = Episodes.from_arrays(
        arrays["observations"],
        lengths=arrays["episode_lengths"],
        terminated=arrays["terminated"],
        actions=actions,
        rewards=arrays.take(["rewards"]).get("rewards"),
        action_space=space,
        **labels_of(arrays.take(LABELS)),
        checked=("actions",),
    )
    return episodes, notices


def _read_one(arrays: Arrays[np.ndarray], options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The one episode of an archive: T+1 observations and T actions, or T of both.

    An action in the last of T rows has no result in the file and is left out. Such an episode
    counts as truncated.
    """
    named = {key: next((n for n in names if n in arrays), None) for key, names in NAMES.items()}
    if named["observations"] is None:
        raise LobsDICEError(f"there is no 'observations'; the file has {listed([*arrays.names])}")
    raw = {key: arrays[name] for key, name in named.items() if name is not None}
    steps = len(raw["observations"]) - 1
    actions, space, notices = None, None, []
    if "actions" in raw:
        actions, space, notices = prepare_actions(
            raw["actions"], space_of(arrays.take(SPACE)), options
        )
    rewards = raw.get("rewards")
    if cut := "actions" in raw and len(raw["actions"]) == steps + 1:
        notices = [*notices, CUT]
    ended = not cut and bool(np.ravel(raw.get("terminals", False))[-1:].any())
    episodes = Episodes.from_arrays(
        raw["observations"],
        lengths=[steps],
        terminated=[ended],
        actions=None if actions is None else _without_last(actions, steps),
        rewards=None if rewards is None else _without_last(np.ravel(rewards), steps),
        action_space=space,
        **labels_of(arrays.take(key for key in LABELS if key != "success")),
        success=_success(arrays),
    )
    return episodes, notices


def _without_last(rows: np.ndarray, steps: int) -> np.ndarray:
    return rows[:-1] if len(rows) == steps + 1 else rows


def _success(arrays: Arrays[np.ndarray]) -> list[int] | None:
    name = next((name for name in SUCCESS if name in arrays), None)
    return None if name is None else [int(flags_of(name, np.ravel(arrays[name])).max())]


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes in our own format."""
    arrays = {
        "observations": episodes.observations,
        "episode_lengths": episodes.lengths,
        "terminated": episodes.terminated,
        "actions": episodes.actions,
        "rewards": episodes.rewards,
        **space_entries(episodes.action_space),
        **label_entries(episodes),
    }
    with atomic(path) as temporary:
        np.savez(temporary, **{key: array for key, array in arrays.items() if array is not None})


def _load(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    member = archive.getinfo(name + SUFFIX)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise LobsDICEError(f"{name} is compressed in a way that NumPy does not use")
    check_claim(name, member.file_size, min(member.compress_size, _size(archive)))
    _check_header(archive, member, name)
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _size(archive: zipfile.ZipFile) -> int:
    """The bytes of the file."""
    assert archive.fp is not None
    return os.fstat(archive.fp.fileno()).st_size


def _check_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
    """Raise an error if an array holds objects, or more numbers than its member has bytes."""
    formats = np.lib.format
    with archive.open(member) as file:
        first = formats.read_magic(file) == (1, 0)
        header = formats.read_array_header_1_0 if first else formats.read_array_header_2_0
        shape, _, dtype = header(file)
    if dtype.hasobject:
        raise LobsDICEError(
            f"{name} holds Python objects, which are never loaded because they can run code; store "
            "plain arrays of numbers"
        )
    check_claim(name, prod(shape) * max(1, dtype.itemsize), member.file_size, ratio=1)
