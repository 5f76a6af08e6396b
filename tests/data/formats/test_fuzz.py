"""Damaged files of every format: a good read or our error, and nothing else."""

from pathlib import Path

import h5py
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read, write
from lobsdice.errors import LobsDICEError

NAMES = [
    *("data.npz", "flat.npz", "data.hdf5", "gzip.hdf5", "data.csv", "data.csv.gz", "data.parquet"),
    "data.robomimic.hdf5",
]
FOLDERS = ["data-v0", "arrow-v0", "data.lerobot", "data.lerobot-v2.1", "data.rlds"]
#: Files of datasets that are written for others, and never read.
UNREAD = ("stats.json", "tasks.parquet", "tasks.jsonl", "episodes.jsonl", "episodes_stats.jsonl")
UNREAD_FOLDERS = ("episodes",)
TRIALS = 150


def flat_arrays(episodes: Episodes, folder: Path) -> dict[str, np.ndarray]:
    write(folder / "plain.hdf5", episodes)
    with h5py.File(folder / "plain.hdf5") as file:
        keys = ("observations", "next_observations", "actions", "terminals", "timeouts")
        return {key: np.asarray(file[key]) for key in keys}


def save(name: str, episodes: Episodes, folder: Path) -> Path:
    path = folder / name
    if name == "flat.npz":
        np.savez_compressed(path, allow_pickle=False, **flat_arrays(episodes, folder))
    elif name == "gzip.hdf5":
        with h5py.File(path, "w") as file:
            for key, array in flat_arrays(episodes, folder).items():
                file.create_dataset(key, data=array, compression="gzip")
    elif name == "arrow-v0":
        save_arrow(path, episodes)
    else:
        write(path, episodes)
    return path


def save_arrow(path: Path, episodes: Episodes) -> None:
    write(path.with_name("copied-v0"), episodes)
    copied = MinariStorage.read(path.with_name("copied-v0") / "data")
    (path / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        path / "data", copied.observation_space, copied.action_space, data_format="arrow"
    )
    storage.update_metadata({"dataset_id": "arrow-v0", "minari_version": minari.__version__})
    for part in copied.get_episodes(range(copied.total_episodes)):
        part["actions"] = part["actions"].astype(np.float64)  # the type of the space
        storage.update_episodes([EpisodeBuffer(**part)])


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes changed, anywhere or near the beginning; or the end cut off."""
    kind = rng.integers(4)
    if kind == 0:
        return content[: rng.integers(len(content))]
    changed = bytearray(content)
    reach = min(len(changed), 400) if kind == 1 else len(changed)
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(reach)] = rng.integers(256)
    return bytes(changed)


def is_read(path: Path) -> bool:
    other = path.name in UNREAD or {*path.parts} & {*UNREAD_FOLDERS}
    return path.is_file() and not other


@pytest.mark.parametrize("name", NAMES + FOLDERS)
@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_damage_is_our_error_or_goes_unnoticed(name, tmp_path, episodes):
    path = save(name, episodes, tmp_path)
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if is_read(p)]
    contents = {file: file.read_bytes() for file in files}
    read(path)
    errors = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        file = files[rng.integers(len(files))]
        file.write_bytes(damaged(contents[file], rng))
        try:
            read(path)
        except LobsDICEError as error:
            errors += 1
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
        file.write_bytes(contents[file])
    assert errors > TRIALS / 4
