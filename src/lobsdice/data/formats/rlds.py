"""RLDS datasets in the files of TensorFlow Datasets: one record an episode.

Step i holds the observation o_i, the action a_i and its reward. In the step with `is_last` the
observation is the final one and the action has no meaning. An episode whose last step is not
`is_terminal` was truncated.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.foreign import json_object, require_file
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.columns import choose, listed
from lobsdice.data.formats.metadata import (
    LABELS,
    SPACE,
    label_entries,
    labels_of,
    space_entries,
    space_of,
)
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.tfrecord import Values, example, parse_example, records, write_records
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError, plural, require

INFO, FEATURES, OURS = "dataset_info.json", "features.json", "lobsdice.json"
OBSERVATION, ACTION, REWARD = "steps/observation", "steps/action", "steps/reward"
LAST, TERMINAL = "steps/is_last", "steps/is_terminal"

#: Numbers in a record by their names in features.json. Integers and truth values are stored alike.
NUMERIC = re.compile(r"(float|int|uint|bool)(\d*)_?")

#: The names of shards, such as robot-train.tfrecord-00000-of-00008.
SHARD = re.compile(r"(.+)-([^-]+)\.(tfrecord|array_record)-\d+-of-\d+")

CLASSES = "tensorflow_datasets.core.features"


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes of a folder, and warnings."""
    folder = _version(path)
    kinds = dict(_tensors(_json(folder / FEATURES)))
    parts = Parts.find(kinds, options)
    shards, notices = _shards(folder, options)
    found = [
        _episode(parse_example(record, parts.keys), parts, f"episode {i}")
        for i, record in enumerate(r for shard in shards for r in _records(shard))
    ]
    whole = [episode for episode in found if len(episode["observations"]) > 1]
    if not whole:
        raise LobsDICEError("there are no episodes with a transition")
    ours = _json(folder / OURS) if (folder / OURS).is_file() else {}
    if single := len(found) - len(whole):
        notices.append(f"{plural(single, 'episode')} of one step dropped, without a transition")
        ours = {}
    return _assemble(whole, parts, ours, options, notices)


@dataclass(frozen=True)
class Tensor:
    """The type and the shape of a feature of a step."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) if self.shape else 1


@dataclass(frozen=True)
class Parts:
    """The features that are read."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    kinds: Mapping[str, Tensor]

    @classmethod
    def find(cls, kinds: Mapping[str, Tensor], options: ReadOptions) -> "Parts":
        """All vectors of the observation, or those that the options name, and the action's."""
        states = _below(kinds, OBSERVATION)
        if options.observation_columns:
            states = {**states, **{key: key for key in kinds}}
            wanted = choose(list(states), options.observation_columns, "observation")
        else:
            wanted = tuple(key for key in states if len(kinds[states[key]].shape) < 2)
        if not wanted:
            raise LobsDICEError(f"no observation is a vector; there are {listed(list(kinds))}")
        actions = _below(kinds, ACTION)
        chosen = (
            choose(list(actions), options.action_columns or tuple(actions), "action")
            if actions
            else ()
        )
        return cls(
            tuple(states[key] for key in wanted), tuple(actions[key] for key in chosen), kinds
        )

    @property
    def keys(self) -> list[str]:
        """The names of all features that are read."""
        flags = [key for key in (REWARD, LAST, TERMINAL) if key in self.kinds]
        return [*self.observations, *self.actions, *flags]

    def names(self, keys: Sequence[str]) -> tuple[str, ...]:
        """A name for each number of some features."""
        short = [key.split("/", 2)[-1] for key in keys]
        sizes = [self.kinds[key].size for key in keys]
        pairs = zip(short, sizes, strict=True)
        return tuple(n if size == 1 else f"{n}_{i}" for n, size in pairs for i in range(size))


def _below(kinds: Mapping[str, Tensor], start: str) -> dict[str, str]:
    """The features with a name or in a group of this name, by what follows it."""
    found = {
        key.removeprefix(start).lstrip("/"): key
        for key in kinds
        if key == start or key.startswith(f"{start}/")
    }
    return {name or start.rpartition("/")[2]: key for name, key in found.items()}


def _episode(values: Mapping[str, Values], parts: Parts, where: str) -> dict[str, Any]:
    observations = _rows(values, parts.observations, parts, where)
    steps = len(observations)
    last = _flags(values, LAST, steps, where)
    if last.any() and int(np.argmax(last)) != steps - 1:
        raise LobsDICEError(f"{where}: step {int(np.argmax(last))} is_last, but others follow")
    terminal = _flags(values, TERMINAL, steps, where)
    return {
        "observations": observations,
        "actions": _rows(values, parts.actions, parts, where)[:-1] if parts.actions else None,
        "rewards": _rows(values, [REWARD], parts, where)[:-1, 0] if REWARD in parts.kinds else None,
        "terminated": bool(terminal[-1:].any()),
    }


def _rows(
    values: Mapping[str, Values], keys: Sequence[str], parts: Parts, where: str
) -> np.ndarray:
    """Features side by side, one row a step."""
    found = []
    for key in keys:
        flat, size = values.get(key), parts.kinds[key].size
        if not isinstance(flat, np.ndarray) or len(flat) % size:
            raise LobsDICEError(f"{where}: {key} does not hold {size} numbers a step")
        found.append(flat.reshape(-1, size))
    if len({len(rows) for rows in found}) > 1:
        raise LobsDICEError(f"{where}: its features differ in the number of steps")
    kind = np.int64 if all(rows.dtype.kind == "i" for rows in found) else np.float32
    return np.concatenate(found, axis=1, dtype=kind, casting="unsafe")


def _flags(values: Mapping[str, Values], key: str, steps: int, where: str) -> np.ndarray:
    found = values.get(key, np.zeros(steps, np.int64))
    if not isinstance(found, np.ndarray) or len(found) != steps:
        raise LobsDICEError(f"{where}: {key} does not hold one truth value a step")
    return found != 0


def _assemble(
    found: Sequence[dict], parts: Parts, ours: dict, options: ReadOptions, notices: list[str]
) -> tuple[Episodes, list[str]]:
    stored = {key: np.array(value) for key, value in ours.items()}
    joined: dict[str, Any] = {
        key: None if found[0][key] is None else np.concatenate([part[key] for part in found])
        for key in ("observations", "actions", "rewards")
    }
    actions, space = joined["actions"], None
    if actions is not None:
        space = space_of({key: stored[key] for key in SPACE if key in stored})
        names = parts.names(parts.actions)
        actions, space, more = prepare_actions(actions, space, options, names)
        notices = [*notices, *more]
    labels = labels_of({key: stored[key] for key in LABELS if key in stored})
    names = labels.pop("observation_names") or parts.names(parts.observations)
    episodes = Episodes.from_arrays(
        joined["observations"],
        lengths=[len(part["observations"]) - 1 for part in found],
        terminated=[part["terminated"] for part in found],
        actions=actions,
        rewards=joined["rewards"],
        action_space=space,
        observation_names=names,
        **labels,
        checked=("actions",),
    )
    return episodes, notices


def _tensors(feature: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the name in a record and the kind of each feature of numbers in features.json."""
    if not isinstance(feature, dict):
        raise LobsDICEError(f"{FEATURES}: {name or 'it'} must be an object")
    if "featuresDict" in feature:
        for key, inner in feature["featuresDict"].get("features", {}).items():
            yield from _tensors(inner, f"{name}/{key}".lstrip("/"))
    elif "sequence" in feature:
        yield from _tensors(feature["sequence"].get("feature", {}), name)
    elif "tensor" in feature:
        tensor = feature["tensor"]
        dimensions = (tensor.get("shape") or {}).get("dimensions", [])
        shape = tuple(int(n) for n in dimensions)
        plain = tensor.get("encoding", "none") == "none" and all(n > 0 for n in shape)
        if plain and NUMERIC.fullmatch(str(tensor.get("dtype"))):
            yield name, Tensor(tensor["dtype"], shape)


def _version(path: Path) -> Path:
    """The folder with the files: this one, or the only version in it."""
    if (path / FEATURES).is_file():
        return path
    found = sorted(file.parent for file in path.glob(f"*/{FEATURES}"))
    if len(found) != 1:
        names = ", ".join(folder.name for folder in found)
        raise LobsDICEError(f"the folder holds several versions: {names}; name one of them")
    return found[0]


def _shards(folder: Path, options: ReadOptions) -> tuple[list[Path], list[str]]:
    """The files of the split that the options name, else of all, and a warning if there are more.

    Shards are found by their names. Paths in dataset_info.json are not followed.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if parts := SHARD.fullmatch(path.name):
            found.setdefault(parts[2], []).append(path)
    if not found:
        raise LobsDICEError("there are no files such as name-train.tfrecord-00000-of-00001")
    if options.subset is not None:
        if options.subset not in found:
            raise LobsDICEError(f"there is no split '{options.subset}', only {', '.join(found)}")
        found = {options.subset: found[options.subset]}
    several = f"all splits were read: {', '.join(found)}; `subset` chooses one"
    shards = [path for paths in found.values() for path in paths]
    _check_number(shards)
    return shards, [several] if len(found) > 1 else []


def _check_number(shards: Sequence[Path]) -> None:
    for path in shards:
        wanted = int(path.name.rpartition("-")[2])
        start = path.name.rpartition("-of-")[0].rpartition("-")[0]
        if (count := sum(other.name.startswith(start) for other in shards)) != wanted:
            raise LobsDICEError(f"there are {count} of the {wanted} files {start}-*")


def _records(shard: Path) -> Iterator[memoryview]:
    require_file(shard)
    if ".array_record-" not in shard.name:
        return records(shard)
    module = require(
        "array_record.python.array_record_module", needed_by="ArrayRecord", extra="arrayrecord"
    )
    reader = module.ArrayRecordReader(str(shard))
    return (memoryview(record) for record in reader.read_all())


def _json(path: Path) -> dict[str, Any]:
    require_file(path)
    try:
        return json_object(path.read_bytes())
    except LobsDICEError as error:
        raise LobsDICEError(f"{path.name}: {error}") from error


# ---- Writing ----


def write(path: Path, episodes: Episodes) -> None:
    """Write one shard, with a last step for each final state."""
    if path.is_dir() and any(path.iterdir()) and not (path / FEATURES).is_file():
        raise LobsDICEError(
            f"{path}: the folder holds something else than an RLDS dataset and was not replaced"
        )
    name = re.sub(r"\W", "_", path.name.removesuffix(".rlds")).lower() or "dataset"
    with atomic(path) as folder:
        folder.mkdir(parents=True)
        shard = folder / f"{name}-train.tfrecord-00000-of-00001"
        size = write_records(shard, (example(part) for part in _steps(episodes)))
        _dump(folder / FEATURES, _described(episodes))
        _dump(folder / INFO, _info(name, len(episodes), size))
        entries = space_entries(episodes.action_space) | label_entries(episodes)
        _dump(folder / OURS, {key: array.tolist() for key, array in entries.items()})


def _steps(episodes: Episodes) -> Iterator[dict[str, Values]]:
    """The features of each episode. The action of its last step, which has none, is zero."""
    for i, (start, first) in enumerate(zip(episodes.starts, episodes.step_starts, strict=True)):
        length = int(episodes.lengths[i])
        last = np.arange(length + 1) == length
        steps = slice(first, first + length)
        found: dict[str, Values] = {
            f"{OBSERVATION}/state": episodes.observations[start : start + length + 1].ravel(),
            "steps/is_first": (np.arange(length + 1) == 0).astype(np.int64),
            LAST: last.astype(np.int64),
            TERMINAL: (last & episodes.terminated[i]).astype(np.int64),
        }
        if episodes.actions is not None:
            rows = episodes.actions[steps]
            found[ACTION] = np.concatenate([rows, np.zeros_like(rows[:1])]).ravel()
        if episodes.rewards is not None:
            found[REWARD] = np.append(episodes.rewards[steps], np.float32(0))
        yield found


def _described(episodes: Episodes) -> dict[str, Any]:
    space = episodes.action_space
    step: dict[str, Any] = {
        "observation": _group({"state": _tensor("float32", episodes.state_size)}),
        **{key: _tensor("bool") for key in ("is_first", "is_last", "is_terminal")},
    }
    if isinstance(space, Box):
        step["action"] = _tensor("float32", space.size)
    elif space is not None:
        step["action"] = _tensor("int64")
    if episodes.rewards is not None:
        step["reward"] = _tensor("float32")
    steps = {
        "pythonClassName": f"{CLASSES}.dataset_feature.Dataset",
        "sequence": {"feature": _group(step), "length": "-1"},
    }
    return _group({"steps": steps})


def _group(features: dict[str, Any]) -> dict[str, Any]:
    name = f"{CLASSES}.features_dict.FeaturesDict"
    return {"pythonClassName": name, "featuresDict": {"features": features}}


def _tensor(dtype: str, size: int | None = None) -> dict[str, Any]:
    shape = {} if size is None else {"dimensions": [str(size)]}
    name = "scalar.Scalar" if size is None else "tensor_feature.Tensor"
    tensor = {"shape": shape, "dtype": dtype, "encoding": "none"}
    return {"pythonClassName": f"{CLASSES}.{name}", "tensor": tensor}


def _info(name: str, count: int, size: int) -> dict[str, Any]:
    split = {
        "name": "train",
        "shardLengths": [str(count)],
        "numBytes": str(size),
        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    }
    return {"name": name, "version": "1.0.0", "fileFormat": "tfrecord", "splits": [split]}


def _dump(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
