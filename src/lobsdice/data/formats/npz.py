"""NumPy archives: our own format of episodes, and flat transitions."""

import zipfile
from pathlib import Path

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.flat import read_flat
from lobsdice.data.formats.metadata import label_entries, labels_of, space_entries, space_of
from lobsdice.data.formats.options import ReadOptions
from lobsdice.errors import LobsDICEError

REQUIRED = ("observations", "episode_lengths", "terminated")


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in an archive of our own format or of flat transitions, and warnings."""
    arrays = _load(path)
    if "episode_lengths" not in arrays:
        return read_flat(arrays, arrays, options)
    for key in REQUIRED:
        if key not in arrays:
            raise LobsDICEError(f"there is no '{key}'; the file has {', '.join(arrays)}")
    actions, space, notices = None, None, []
    if "actions" in arrays:
        actions, space, notices = prepare_actions(arrays["actions"], space_of(arrays), options)
    episodes = Episodes.from_arrays(
        arrays["observations"],
        lengths=arrays["episode_lengths"],
        terminated=arrays["terminated"],
        actions=actions,
        rewards=arrays.get("rewards"),
        action_space=space,
        **labels_of(arrays),
        checked=("actions",),
    )
    return episodes, notices


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


def _load(path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        return {name[: -len(".npy")]: _member(archive, name) for name in members}


def _member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise LobsDICEError(
                f"{name[: -len('.npy')]} holds Python objects, which are never loaded because they "
                "can run code; store plain arrays of numbers"
            ) from error
