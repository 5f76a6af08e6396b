"""The robot of the second tutorial (docs/tutorial_robot.md): a tool that presses pins into holes.

The tool moves in a plane, sideways and up and down, by commanded speeds. On the table stand two
fixtures with a hole each, left and right. An episode ends when the pin touches the table: with
success in a hole, with failure elsewhere. `record` writes two datasets in LeRobot's layout, version
3.0. In the demonstrations a person guides the tool by hand to the right fixture, so that there are
no commands. The logs have commands, and go to both fixtures or fail. `run` lets policies in ONNX
files press pins.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import pyarrow as pa
import tyro
from pyarrow import parquet

#: Frames a second, and the seconds in which the tool takes up a commanded speed.
FPS, LAG = 20, 0.1
#: The largest speed (m/s) that can be commanded.
LIMIT = 0.5
#: Where the holes are, and how far from the middle of a hole a pin still goes in (m).
HOLES = {"left": -0.3, "right": 0.3}
CLEARANCE = 0.06
#: The fixture of the demonstrations.
SHOWN = "right"
#: An episode is stopped after eight seconds.
FRAMES = 8 * FPS

STATE = ["tool.x", "tool.z", "tool.vx", "tool.vz"]
COMMAND = ["command.vx", "command.vz"]

#: A function from states (place and speed of the tool) to commanded speeds, one row a tool.
Controller = Callable[[np.ndarray], np.ndarray]


class Episode(NamedTuple):
    """The frames of an episode. No frame follows the last command."""

    states: np.ndarray
    commands: np.ndarray
    touched: bool
    """True if the pin touched the table after the last command."""
    hole: str | None
    """The hole that the pin went into."""


def step(states: np.ndarray, commands: np.ndarray) -> np.ndarray:
    """The states at the next frame."""
    speeds = states[:, 2:] + (commands - states[:, 2:]) * (1 / FPS / (LAG + 1 / FPS))
    return np.concatenate([states[:, :2] + speeds / FPS, speeds], axis=1)


def move(control: Controller, starts: np.ndarray) -> list[Episode]:
    """The episodes of a controller, one for each start, all at the same time."""
    states, frames, commands = starts, [], []
    for _ in range(FRAMES):
        frames.append(states)
        commands.append(np.clip(control(states), -LIMIT, LIMIT))
        states = step(states, commands[-1])
    heights = np.stack([*frames[1:], states])[:, :, 1]
    return [
        _episode(np.stack(frames), np.stack(commands), heights[:, i] <= 0, states, i)
        for i in range(len(starts))
    ]


def _episode(frames, commands, below, last, i: int) -> Episode:
    """The frames of one tool until its pin touches the table."""
    touched = bool(below.any())
    length = int(np.argmax(below)) + 1 if touched else FRAMES
    after = frames[length, i] if length < FRAMES else last[i]
    near = (name for name, x in HOLES.items() if abs(after[0] - x) < CLEARANCE)
    hole = next(near, None) if touched else None
    return Episode(frames[:length, i], commands[:length, i], touched, hole)


def starts(random: np.random.Generator, count: int) -> np.ndarray:
    """Random states at rest, above the table."""
    places = random.uniform((-0.4, 0.2), (0.4, 0.35), (count, 2))
    return np.concatenate([places, np.zeros((count, 2))], axis=1)


def press(x: float, random: np.random.Generator, *, tremor: float) -> Controller:
    """A controller that goes over a place, and down the more the nearer it is."""

    def control(states: np.ndarray) -> np.ndarray:
        way = x - states[:, 0]
        height = np.minimum(0.2, 4 * np.abs(way)) - 0.05
        commands = np.stack([3 * way, 3 * (height - states[:, 1])], axis=1)
        return commands + tremor * random.normal(size=commands.shape)

    return control


def write(folder: Path, episodes: list[Episode], *, commands: bool) -> None:
    """Write a dataset in LeRobot's layout: facts in meta, all frames in one file of data."""
    sizes = [len(episode.states) for episode in episodes]
    features = {"observation.state": feature("float32", STATE)}
    columns = {"observation.state": vectors([e.states for e in episodes])}
    if commands:
        features["action"] = feature("float32", COMMAND)
        columns["action"] = vectors([e.commands for e in episodes])
    for key, marks in (
        ("next.done", [e.touched for e in episodes]),
        ("next.success", [e.hole is not None for e in episodes]),
    ):
        features[key] = feature("bool")
        columns[key] = pa.array(
            np.concatenate(
                [
                    np.arange(n) == (n - 1 if mark else n)
                    for n, mark in zip(sizes, marks, strict=True)
                ]
            )
        )
    frame = np.concatenate([np.arange(n) for n in sizes])
    columns |= {
        "timestamp": pa.array((frame / FPS).astype(np.float32)),
        "frame_index": pa.array(frame),
        "episode_index": pa.array(np.repeat(np.arange(len(sizes)), sizes)),
        "index": pa.array(np.arange(len(frame))),
        "task_index": pa.array(np.zeros(len(frame), np.int64)),
    }
    features |= {key: feature("int64") for key in list(columns)[-4:]}
    features["timestamp"] = feature("float32")
    info = {
        "codebase_version": "v3.0",
        "robot_type": "press",
        "total_episodes": len(sizes),
        "total_frames": len(frame),
        "total_tasks": 1,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(sizes)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": None,
        "features": features,
    }
    for name in ("meta", "data/chunk-000"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), folder / "data/chunk-000/file-000.parquet")
    (folder / "meta/info.json").write_text(json.dumps(info, indent=4))


def feature(dtype: str, names: list[str] | None = None) -> dict:
    """The description of a column in info.json."""
    return {"dtype": dtype, "shape": [len(names) if names else 1], "names": names}


def vectors(parts: list[np.ndarray]) -> pa.Array:
    """A column of lists of numbers."""
    rows = np.concatenate(parts).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


@dataclass(frozen=True)
class Record:
    """Write a dataset of demonstrations and one of logs."""

    demos: tyro.conf.Positional[Path]
    logs: tyro.conf.Positional[Path]

    def run(self) -> None:
        random = np.random.default_rng(0)
        shown = move(press(HOLES[SHOWN], random, tremor=0.02), starts(random, 10))
        # Most jobs go to the left. Some miss the hole, because the fixture was not in its place.
        places = [(HOLES["left"], 90), (HOLES["right"], 40), (-0.12, 25), (0.12, 25)]
        logs = [
            episode
            for x, count in places
            for episode in move(press(x, random, tremor=0.15), starts(random, count))
        ]
        order = random.permutation(len(logs))
        write(self.demos, shown, commands=False)
        write(self.logs, [logs[i] for i in order], commands=True)


@dataclass(frozen=True)
class Run:
    """Let policies press pins from two hundred places, and print where they went."""

    policies: tyro.conf.Positional[tuple[Path, ...]]

    def run(self) -> None:
        random = np.random.default_rng(1)
        begin = starts(random, 200)
        who = {"the person": press(HOLES[SHOWN], random, tremor=0.02)}
        who |= {path.name: load(path) for path in self.policies}
        for name, control in who.items():
            episodes = move(control, begin)
            shares = {hole: np.mean([e.hole == hole for e in episodes]) for hole in HOLES}
            missed = np.mean([e.touched and e.hole is None for e in episodes])
            print(
                f"{name:17} right {shares['right']:4.0%}  left {shares['left']:4.0%}  "
                f"missed {missed:4.0%}"
            )


def load(path: Path) -> Controller:
    """The policy in an ONNX file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def control(states: np.ndarray) -> np.ndarray:
        feed = {"observation": states.astype(np.float32)}
        return np.asarray(session.run(["action"], feed)[0])

    return control


if __name__ == "__main__":
    tyro.cli(Record | Run).run()
