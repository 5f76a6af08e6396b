"""The files of a LeRobot dataset, as the library writes them: versions 2.1 and 3.0.

Version 2.1 has one file an episode. Version 3.0 has many episodes in one file, and the facts about
episodes in Parquet files. Both are described in the library's `datasets/utils.py`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.formats.metadata import label_entries, space_entries
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError

#: A file that LeRobot does not know: bounds and names of actions, ends, sources.
OURS = "meta/lobsdice.json"

#: Files in a folder, and about so many bytes in a file, as in the library.
CHUNK, FILE_MB = 1000, 100

#: Frames a second. Episodes do not know their rate, so that timestamps count frames.
FPS = 1

#: Every frame belongs to a task, which has a name.
TASK = "recorded with lobsdice"

DATA_V3 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_V21 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"

INDEX = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}


def write_v3(path: Path, episodes: Episodes) -> None:
    """Write a dataset of version 3.0."""
    frames, features = _frames(episodes), _features(episodes)
    sizes = episodes.lengths + 1
    with _new_folder(path) as folder:
        file_of = _file_of_each(frames, sizes)
        for number in np.unique(file_of):
            rows = np.isin(frames["episode_index"], np.flatnonzero(file_of == number))
            name = DATA_V3.format(chunk_index=number // CHUNK, file_index=number % CHUNK)
            _write_rows(folder / name, {key: column[rows] for key, column in frames.items()})
        facts = [_episode_facts(i, int(n), frames, int(file_of[i])) for i, n in enumerate(sizes)]
        facts = [
            fact | {"dataset_from_index": int(a), "dataset_to_index": int(a + fact["length"])}
            for fact, a in zip(facts, episodes.starts, strict=True)
        ]
        _write(folder / "meta/episodes/chunk-000/file-000.parquet", pa.Table.from_pylist(facts))
        _write(folder / "meta/tasks.parquet", _tasks())
        _dump(folder / "meta/stats.json", _stats(frames))
        info = {
            "data_path": DATA_V3,
            "data_files_size_in_mb": FILE_MB,
            "video_files_size_in_mb": 200,
        }
        _dump(folder / "meta/info.json", _info("v3.0", episodes, features, info))
        _dump(folder / OURS, _ours(episodes))


def write_v21(path: Path, episodes: Episodes) -> None:
    """Write a dataset of version 2.1."""
    frames, features = _frames(episodes), _features(episodes)
    chunks = -(-len(episodes) // CHUNK)
    with _new_folder(path) as folder:
        lines, stats = [], []
        for i, part in enumerate(_each(frames, episodes)):
            _write_rows(folder / DATA_V21.format(episode_chunk=i // CHUNK, episode_index=i), part)
            lines.append({"episode_index": i, "tasks": [TASK], "length": len(part["index"])})
            stats.append({"episode_index": i, "stats": _stats(part)})
        _dump_lines(folder / "meta/episodes.jsonl", lines)
        _dump_lines(folder / "meta/episodes_stats.jsonl", stats)
        _dump_lines(folder / "meta/tasks.jsonl", [{"task_index": 0, "task": TASK}])
        info = {"total_videos": 0, "total_chunks": chunks, "data_path": DATA_V21}
        _dump(folder / "meta/info.json", _info("v2.1", episodes, features, info))
        _dump(folder / OURS, _ours(episodes))


def _new_folder(path: Path):
    if path.is_dir() and any(path.iterdir()) and not (path / "meta/info.json").is_file():
        raise LobsDICEError(
            f"{path}: the folder holds something else than a LeRobot dataset and was not replaced"
        )
    return atomic(path)


def _frames(episodes: Episodes) -> dict[str, np.ndarray]:
    """The columns of all frames. In the last frame of an episode its last action is repeated."""
    count = len(episodes.observations)
    episode = np.repeat(np.arange(len(episodes)), episodes.lengths + 1)
    frame = np.arange(count) - episodes.starts[episode]
    last = np.zeros(count, bool)
    last[episodes.ends] = True
    step = np.cumsum(~last) - 1  # the step before or at each frame
    ended = episodes.terminated[episode] & (frame >= episodes.lengths[episode] - 1)
    columns: dict[str, np.ndarray] = {"observation.state": episodes.observations}
    if episodes.actions is not None:
        columns["action"] = episodes.actions[step]
    if episodes.rewards is not None:
        columns["next.reward"] = np.where(last, 0, episodes.rewards[step]).astype(np.float32)
    columns["next.done"] = ended
    if episodes.success is not None:
        columns["next.success"] = ended & (episodes.success[episode] == 1)
    return columns | {
        "timestamp": (frame / FPS).astype(np.float32),
        "frame_index": frame,
        "episode_index": episode,
        "index": np.arange(count),
        "task_index": np.zeros(count, np.int64),
    }


def _features(episodes: Episodes) -> dict[str, dict[str, Any]]:
    """The features in info.json: the type, the shape and the names of each column."""
    space, found = episodes.action_space, {}
    names = list(episodes.observation_names) or None
    found["observation.state"] = _feature("float32", episodes.state_size, names)
    if isinstance(space, Box):
        found["action"] = _feature("float32", space.size, list(space.names) or None)
    elif space is not None:
        found["action"] = _feature("int64")
    if episodes.rewards is not None:
        found["next.reward"] = _feature("float32")
    found["next.done"] = _feature("bool")
    if episodes.success is not None:
        found["next.success"] = _feature("bool")
    return found | {key: _feature(kind) for key, kind in INDEX.items()}


def _feature(dtype: str, size: int = 1, names: list[str] | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [size], "names": names}


def _info(version: str, episodes: Episodes, features: dict, more: dict) -> dict[str, Any]:
    return {
        "codebase_version": version,
        "robot_type": "unknown",
        "total_episodes": len(episodes),
        "total_frames": len(episodes.observations),
        "total_tasks": 1,
        "chunks_size": CHUNK,
        "fps": FPS,
        "splits": {"train": f"0:{len(episodes)}"},
        "video_path": None,
        **more,
        "features": features,
    }


def _ours(episodes: Episodes) -> dict[str, Any]:
    entries = space_entries(episodes.action_space) | label_entries(episodes)
    entries = {key: array.tolist() for key, array in entries.items()}
    return entries | {"terminated": episodes.terminated.tolist()}


def _each(frames: dict[str, np.ndarray], episodes: Episodes) -> Iterator[dict[str, np.ndarray]]:
    for start, size in zip(episodes.starts, episodes.lengths + 1, strict=True):
        yield {key: column[start : start + size] for key, column in frames.items()}


def _file_of_each(frames: dict[str, np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """The number of the data file of each episode."""
    row = sum(column.itemsize * column[0].size for column in frames.values())
    return (np.cumsum(sizes * row) - sizes * row) // (FILE_MB << 20)


def _episode_facts(
    number: int, size: int, frames: dict[str, np.ndarray], file: int
) -> dict[str, Any]:
    """The row of an episode in meta/episodes."""
    start = int(np.searchsorted(frames["episode_index"], number))
    part = {key: column[start : start + size] for key, column in frames.items()}
    stats = {
        f"stats/{key}/{name}": value
        for key, found in _stats(part).items()
        for name, value in found.items()
    }
    return {
        "episode_index": number,
        "tasks": [TASK],
        "length": size,
        "data/chunk_index": file // CHUNK,
        "data/file_index": file % CHUNK,
        **stats,
        "meta/episodes/chunk_index": 0,
        "meta/episodes/file_index": 0,
    }


def _stats(frames: dict[str, np.ndarray]) -> dict[str, dict[str, list]]:
    """The smallest and largest values, means and deviations of each feature."""
    found = {}
    for key, column in frames.items():
        rows = column.reshape(len(column), -1)
        found[key] = {
            "min": rows.min(axis=0).tolist(),
            "max": rows.max(axis=0).tolist(),
            "mean": rows.mean(axis=0, dtype=np.float64).tolist(),
            "std": rows.std(axis=0, dtype=np.float64).tolist(),
            "count": [len(rows)],
        }
    return found


def _write_rows(path: Path, frames: dict[str, np.ndarray]) -> None:
    _write(path, pa.table({key: _column(column) for key, column in frames.items()}))


def _column(values: np.ndarray) -> pa.Array:
    """A column of numbers, or of lists of a fixed size if a frame has more than one."""
    if values.ndim == 1 or values.shape[1] == 1:
        return pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _tasks() -> pa.Table:
    """The names of tasks, as the index of a table of pandas."""
    index, column = "__index_level_0__", "task_index"
    described = {
        "index_columns": [index],
        "column_indexes": [],
        "columns": [
            _pandas(column, column, "int64"),
            _pandas("task", index, "unicode") | {"numpy_type": "object"},
        ],
        "pandas_version": "2.0.0",
    }
    table = pa.table({column: [0], index: [TASK]})
    return table.replace_schema_metadata({"pandas": json.dumps(described)})


def _pandas(name: str, field: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "field_name": field,
        "pandas_type": kind,
        "numpy_type": kind,
        "metadata": None,
    }


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path)


def _dump(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False), encoding="utf-8")


def _dump_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
