"""LeRobot datasets: folders of Parquet files with one row a frame.

An episode of T frames has T-1 transitions: there is no observation after the last action. Where the
frames say that an episode ended, its last frame stands for the end. The versions 2.0, 2.1 and 3.0
are read; they differ in which files hold which rows. 2.1 and 3.0 are written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64
from pyarrow import parquet

from lobsdice.data.episodes import NUMBERS, Episodes
from lobsdice.data.foreign import json_object, require_file
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.cells import check_columns, matrix, numbers
from lobsdice.data.formats.columns import choose, listed
from lobsdice.data.formats.lerobot_layout import OURS, write_v3 as write_layout, write_v21
from lobsdice.data.formats.metadata import SPACE, flags_of, labels_of, space_of, success_of
from lobsdice.data.formats.options import IfThere, ReadOptions
from lobsdice.data.formats.parquet import read_columns
from lobsdice.data.rows import offsets
from lobsdice.data.spaces import ActionSpace
from lobsdice.errors import LobsDICEError, MissingColumnError, plural

VERSIONS = ("v2.0", "v2.1", "v3.0")

#: The features that are read as observations without an option, if the dataset has them.
STATES = ("observation.state", "observation.environment_state")
EPISODE, FRAME, ACTION, REWARD = "episode_index", "frame_index", "action", "next.reward"
DONE, SUCCESS, TRUNCATED = "next.done", "next.success", "next.truncated"

NUMERIC = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")

write = write_layout
__all__ = ["read", "write", "write_v21"]


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes of a dataset, and warnings."""
    info, ours = _info(path), _ours(path)
    parts = Parts.find(info["features"], options)
    frames, dropped = Frames.of(_rows(path, parts.columns), info)
    observations = frames.take(parts.observations).astype(np.float32)
    check_columns(observations, parts.observations)
    actions, space, notices = _actions(frames, parts, space_of(_arrays(ours, SPACE)), options)
    rewards = frames.take([REWARD])[frames.steps, 0] if REWARD in parts.columns else None
    ends, more = _ends(frames, parts)
    named = {"observation_names": parts.names, "unread": () if ended(ends) else parts.unread}
    episodes = Episodes.from_arrays(
        observations,
        lengths=frames.sizes - 1,
        actions=actions,
        rewards=rewards,
        action_space=space,
        **(named | ends | ({} if dropped else _labels(ours))),
        checked=[key for key in NUMBERS if key != "rewards"],
    )
    return episodes, [*dropped, *notices, *([] if ours else more)]


def ended(ends: Mapping[str, Any]) -> bool:
    """True if the frames say which episodes terminated."""
    return ends.get("terminated") is not None


@dataclass(frozen=True)
class Parts:
    """The features that hold each part of an episode."""

    observations: tuple[str, ...]
    names: tuple[str, ...]
    """One for each number of an observation."""
    action: str | None
    action_names: tuple[str, ...]
    flags: tuple[str, ...]
    """The features that may mark ends."""
    terminated: str | None
    """The feature that an option names."""
    columns: tuple[str, ...]

    @classmethod
    def find(cls, features: Mapping[str, Any], options: ReadOptions) -> "Parts":
        """The features that the options name, else those with the default names."""
        usable = {key: kind for key, kind in features.items() if _is_vector(kind)}
        states = _chosen(features, usable, options)
        wanted = options.action_columns or (ACTION,)
        actions = choose(list(usable), wanted, "action") if _any(usable, wanted) else ()
        if not actions and options.action_columns and not isinstance(wanted, IfThere):
            raise MissingColumnError(
                f"no feature matches {wanted[0]!r}; there are {listed([*usable])}"
            )
        if len(actions) > 1 or set(actions) & set(states):
            raise LobsDICEError("choose one feature as the action, which is no observation")
        ended = options.terminated_column if options.terminated_column in usable else None
        if ended is None and type(options.terminated_column) is str:
            raise LobsDICEError(f"there is no feature '{options.terminated_column}'")
        flags = tuple(key for key in (DONE, SUCCESS, TRUNCATED) if key in usable)
        extra = [key for key in (REWARD, ended) if key in usable]
        columns = dict.fromkeys([EPISODE, FRAME, *states, *actions, *flags, *extra])
        return cls(
            states,
            _named(usable, states),
            actions[0] if actions else None,
            _names_of(usable[actions[0]]) if actions else (),
            flags,
            ended,
            tuple(key for key in columns if key is not None),
        )

    @property
    def unread(self) -> tuple[str, ...]:
        """Features that may mark ends, but do not say whether the task or the recording ended."""
        return tuple(key for key in (DONE, SUCCESS) if key in self.flags)


@dataclass(frozen=True)
class Frames:
    """The frames of all episodes, in their order."""

    table: pa.Table
    order: Int64[np.ndarray, " frames"]
    sizes: Int64[np.ndarray, " episodes"]

    @classmethod
    def of(cls, table: pa.Table, info: Mapping[str, Any]) -> tuple["Frames", list[str]]:
        """The frames, without episodes of one, and a warning if there are some."""
        episode, frame = (numbers(table, key) for key in (EPISODE, FRAME))
        order = np.lexsort((frame, episode))
        _check_frames(episode[order], frame[order], info)
        sizes = np.diff(np.flatnonzero(np.diff(episode[order], prepend=-1, append=-1)))
        if (sizes == 1).all():
            raise LobsDICEError("every episode has only one frame, so that there is no transition")
        kept = np.repeat(sizes > 1, sizes)
        single = plural(int((sizes == 1).sum()), "episode")
        dropped = [f"{single} of one frame dropped, because one state is not a transition"]
        return cls(table, order[kept], sizes[sizes > 1]), [] if kept.all() else dropped

    def take(self, names: Sequence[str]) -> np.ndarray:
        """Features side by side, one row a frame."""
        return matrix(self.table, names, may_be_empty=None)[0][self.order]

    @property
    def steps(self) -> Bool[np.ndarray, " frames"]:
        """True for all frames but the last one of each episode."""
        found = np.ones(len(self.order), bool)
        found[offsets(self.sizes) + self.sizes - 1] = False
        return found

    def at_end(self, name: str) -> Bool[np.ndarray, " episodes"]:
        """True for each episode with a mark in one of its last two frames."""
        marks = self.take([name])[:, 0] != 0
        last = offsets(self.sizes) + self.sizes - 1
        return marks[last] | marks[last - 1]


def _actions(frames: Frames, parts: Parts, stored: ActionSpace | None, options: ReadOptions):
    if parts.action is None:
        return None, None, []
    raw = frames.take([parts.action])[frames.steps]
    return prepare_actions(raw, stored, options, parts.action_names)


def _ends(frames: Frames, parts: Parts) -> tuple[dict[str, Any], list[str]]:
    """The ends of episodes as arguments of `from_arrays`, and warnings.

    `next.done` is set where the recording stopped, too. So it counts only with `next.truncated` or
    `next.success`, which tell the two apart, or if an option names it.
    """
    found: dict[str, Any] = {}
    if SUCCESS in parts.flags:
        flags = flags_of(SUCCESS, frames.take([SUCCESS]))
        found["success"] = success_of(SUCCESS, flags, frames.sizes)
    if parts.terminated is not None:
        return found | {"terminated": frames.at_end(parts.terminated)}, []
    if DONE not in parts.flags or not {SUCCESS, TRUNCATED} & {*parts.flags}:
        return found, []
    done = frames.at_end(DONE)
    if TRUNCATED in parts.flags:
        return found | {"terminated": done & ~frames.at_end(TRUNCATED)}, []
    unclear = int((done & (found["success"] != 1)).sum())
    notice = (
        f"{plural(unclear, 'episode')} {'is' if unclear == 1 else 'are'} done without success and "
        "may have failed or run out of time; counted as truncated, unless `terminated_column` is "
        f"'{DONE}'"
    )
    terminated = done & (found["success"] == 1)
    return found | {"terminated": terminated}, [notice] if unclear else []


def _info(path: Path) -> dict[str, Any]:
    require_file(path / "meta" / "info.json")
    info = json_object((path / "meta" / "info.json").read_bytes())
    version = info.get("codebase_version")
    if version not in VERSIONS:
        raise LobsDICEError(
            f"meta/info.json: the version is {str(version)[:20]!r}; {', '.join(VERSIONS)} are read"
        )
    features = info.get("features")
    if not isinstance(features, dict) or not all(isinstance(x, dict) for x in features.values()):
        raise LobsDICEError("meta/info.json: 'features' must be an object of objects")
    return info


def _rows(path: Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of all data files. Every row names its episode, whatever file it is in."""
    files = sorted((path / "data").glob("*/*.parquet")) if (path / "data").is_dir() else []
    if not files:
        raise LobsDICEError("there are no files data/*/*.parquet")
    return pa.concat_tables(list(_tables(path, files, columns)), promote_options="permissive")


def _tables(path: Path, files: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    for file in files:
        name = file.relative_to(path)
        require_file(file)
        try:
            schema = parquet.read_schema(file)
        except pa.ArrowInvalid as error:
            raise LobsDICEError(
                f"{name}: it is not a whole Parquet file; perhaps the recording was not finalised"
            ) from error
        if missing := next((key for key in columns if key not in schema.names), None):
            raise LobsDICEError(f"{name}: there is no column '{missing}'")
        # Metadata of features differ from file to file, and do not matter here.
        yield read_columns(file, columns).replace_schema_metadata(None)


def _check_frames(episode: np.ndarray, frame: np.ndarray, info: Mapping[str, Any]) -> None:
    if not len(episode):
        raise LobsDICEError("there are no episodes")
    same = (np.diff(episode) == 0) & (np.diff(frame) == 0)
    if same.any():
        i = int(np.flatnonzero(same)[0])
        raise LobsDICEError(f"episode {episode[i]:g} has its frame {frame[i]:g} twice")
    counts = {"total_frames": len(episode), "total_episodes": len(np.unique(episode))}
    for key, count in counts.items():
        if isinstance(stated := info.get(key), int) and stated != count:
            raise LobsDICEError(
                f"meta/info.json: '{key}' is {stated}, but the data files have {count}; perhaps "
                "some are missing"
            )


def _is_vector(feature: Mapping[str, Any]) -> bool:
    shape = feature.get("shape")
    return feature.get("dtype") in NUMERIC and isinstance(shape, list) and len(shape) == 1


def _chosen(
    features: Mapping[str, Any], usable: Mapping[str, Any], options: ReadOptions
) -> tuple[str, ...]:
    wanted = options.observation_columns or STATES
    found = [key for key in wanted if _any(usable, [key])]
    if not options.observation_columns and found:
        return tuple(found)
    if not found or len(found) < len(wanted):
        odd = next(key for key in wanted if key not in found)
        kind = features.get(odd, {}).get("dtype")
        what = f"'{odd}' is {kind} data" if kind else f"no feature matches '{odd}'"
        raise MissingColumnError(
            f"{what}; choose vectors of numbers with `observation_columns`: {listed([*usable])}"
        )
    return choose(list(usable), wanted, "observation")


def _any(usable: Mapping[str, Any], patterns: Sequence[str]) -> bool:
    return any(choose(list(usable), [p], "feature", strict=False) for p in patterns)


def _names_of(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a feature's numbers: a list, or lists in groups such as `motors`; or none."""
    names = feature.get("names")
    if isinstance(names, dict):
        names = [name for group in names.values() if isinstance(group, list) for name in group]
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if fits and names and len(names) == feature["shape"][0] else ()


def _named(usable: Mapping[str, Any], states: Sequence[str]) -> tuple[str, ...]:
    """A name for each number of an observation, unlike all others."""
    found: list[str] = []
    for key in states:
        size = usable[key]["shape"][0]
        found += _names_of(usable[key]) or (f"{key}_{i}" if size > 1 else key for i in range(size))
    keys = [key for key in states for _ in range(usable[key]["shape"][0])]
    if len({*found}) < len(found):
        found = [f"{key}.{name}" for key, name in zip(keys, found, strict=True)]
    return tuple(found)


def _ours(path: Path) -> dict[str, Any]:
    """The facts that LeRobot has no place for, if lobsdice wrote the dataset."""
    file = path / OURS
    if not file.is_file():
        return {}
    require_file(file)
    return json_object(file.read_bytes())


def _arrays(ours: Mapping[str, Any], keys: Sequence[str]) -> dict[str, np.ndarray]:
    return {key: np.array(ours[key]) for key in keys if key in ours}


def _labels(ours: Mapping[str, Any]) -> dict[str, Any]:
    if not ours:
        return {}
    names = ("source", "source_names", "episode_names", "success", "observation_names")
    found = labels_of(_arrays(ours, names))
    labels = {key: value for key, value in found.items() if key in ours}
    return {"success": None} | labels | {"terminated": ours.get("terminated"), "unread": ()}
