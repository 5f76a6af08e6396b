"""Robot data: LeRobot, robomimic, RLDS. What others write is read, and their traps are avoided."""

import json
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np
import pyarrow as pa
import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from pyarrow import parquet

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read, write
from lobsdice.data.formats.tfrecord import crc32c, parse_example, records
from lobsdice.data.spaces import Box
from lobsdice.errors import DataWarning, LobsDICEError

OFFICIAL = Path(__file__).with_name("official")
BOUNDS: dict[str, Any] = {"action_low": -1.0, "action_high": 1.0}
Found = TypeVar("Found")


def some(found: Found | None) -> Found:
    assert found is not None
    return found


def quietly(path: Path, **options: Any) -> Episodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read(path, **options)


# ---- LeRobot ----


def feature(dtype: str, *shape: int, names: Any = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "names": names}


FEATURES = {
    "observation.state": feature("float32", 2, names={"motors": ["shoulder", "elbow"]}),
    "observation.images.top": feature("video", 3, 48, 64),
    "action": feature("float32", 2, names=["shoulder", "elbow"]),
    "timestamp": feature("float32", 1),
    "frame_index": feature("int64", 1),
    "episode_index": feature("int64", 1),
    "index": feature("int64", 1),
    "task_index": feature("int64", 1),
}
FLAG = feature("bool", 1)


def lerobot(folder: Path, version: str, sizes: tuple[int, ...], **flags: list[list[bool]]) -> Path:
    """A dataset in the public layout of a version, with rows that count."""
    tables, index = [], 0
    for episode, size in enumerate(sizes):
        frames = np.arange(size)
        states = (10.0 * episode + np.stack([frames, -frames], axis=1)).astype(np.float32)
        columns = {
            "observation.state": pa.FixedSizeListArray.from_arrays(pa.array(states.ravel()), 2),
            "action": pa.FixedSizeListArray.from_arrays(pa.array(states.ravel() / 100), 2),
            **{f"next.{key}": pa.array(marks[episode]) for key, marks in flags.items()},
            "timestamp": pa.array((frames / 30).astype(np.float32)),
            "frame_index": pa.array(frames),
            "episode_index": pa.array(np.full(size, episode)),
            "index": pa.array(frames + index),
            "task_index": pa.array(np.zeros(size, np.int64)),
        }
        tables.append(pa.table(columns))
        index += size
    if version == "v3.0":  # many episodes in a file, in any order of files
        stored = {"chunk-000/file-000": pa.concat_tables(tables[:2])}
        stored |= {"chunk-000/file-001": pa.concat_tables(tables[2:])} if tables[2:] else {}
    else:
        stored = {f"chunk-000/episode_{i:06d}": table for i, table in enumerate(tables)}
    for name, table in stored.items():
        path = folder / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, path)
    (folder / "meta").mkdir()
    info = {
        "codebase_version": version,
        "robot_type": "so100",
        "total_episodes": len(sizes),
        "total_frames": index,
        "fps": 30,
        "features": FEATURES | {f"next.{key}": FLAG for key in flags},
    }
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return folder


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_frames_of_teleoperation_are_one_more_than_transitions_and_no_end(version, tmp_path):
    found = quietly(lerobot(tmp_path, version, (4, 3, 5)))
    assert found.lengths.tolist() == [3, 2, 4]
    assert not found.terminated.any() and found.unread == ()
    np.testing.assert_array_equal(found.observations[found.ends, 0], [3, 12, 24])
    np.testing.assert_array_equal(some(found.actions)[-1], np.array([0.23, 0.17], np.float32))
    assert found.observation_names == ("shoulder", "elbow")
    assert some(found.action_space).names == ("shoulder", "elbow")


def test_done_alone_does_not_tell_an_end_from_a_time_limit(tmp_path):
    done = [[False, False, True], [False, False, True]]
    lerobot(tmp_path, "v3.0", (3, 3), done=done)
    with pytest.warns(DataWarning, match=r"truncated, although 'next\.done' may mark ends"):
        assert not read(tmp_path, **BOUNDS).terminated.any()
    assert quietly(tmp_path, terminated_column="next.done").terminated.all()


def test_done_with_success_is_an_end_and_without_it_is_named(tmp_path):
    done, success = [[False, False, True]] * 2, [[False, False, True], [False] * 3]
    lerobot(tmp_path, "v2.1", (3, 3), done=done, success=success)
    with pytest.warns(DataWarning, match="1 episode is done without success"):
        found = read(tmp_path, **BOUNDS)
    assert found.terminated.tolist() == [True, False]
    assert some(found.success).tolist() == [1, 0]


def test_truncated_tells_failures_from_time_limits(tmp_path):
    done, truncated = [[False, False, True]] * 2, [[False] * 3, [False, False, True]]
    lerobot(tmp_path, "v3.0", (3, 3), done=done, truncated=truncated)
    assert quietly(tmp_path).terminated.tolist() == [True, False]


def test_what_lerobot_writes_is_read():
    found = quietly(OFFICIAL / "lerobot-v3.0")
    rows = parquet.read_table(OFFICIAL / "lerobot-v3.0/data/chunk-000/file-000.parquet").to_pylist()
    states = [row["observation.state"] + row["observation.environment_state"] for row in rows]
    np.testing.assert_array_equal(found.observations, np.array(states, np.float32))
    kept = [row["action"] for row in rows if not row["next.done"]]
    np.testing.assert_array_equal(found.actions, np.array(kept, np.float32))
    assert found.terminated.tolist() == [True, False, True]


def test_features_are_chosen_by_pattern(tmp_path):
    path = OFFICIAL / "lerobot-v3.0"
    assert quietly(path, observation_keys="observation.env*").state_size == 2
    with pytest.raises(LobsDICEError, match=r"'observation\.images\.top' is video data; choose"):
        read(lerobot(tmp_path, "v3.0", (3, 3)), observation_keys=["observation.images.top"])


def change_info(**entries: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "meta" / "info.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return change


def cut_off(folder: Path) -> None:
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def frame_twice(folder: Path) -> None:
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    table = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([table, table.slice(2, 1)]), path)


BAD_LEROBOT = {
    "an old version": (change_info(codebase_version="v1.6"), "the version is 'v1.6'; v2.0, v2.1"),
    "a missing file": (change_info(total_episodes=7), "'total_episodes' is 7, but the data files"),
    "not finalised": (cut_off, "perhaps the recording was not finalised"),
    "a frame twice": (frame_twice, "episode 0 has its frame 2 twice"),
    "features of another kind": (change_info(features=[1]), "'features' must be an object"),
}


@pytest.mark.parametrize("case", BAD_LEROBOT)
def test_a_bad_lerobot_dataset_is_one_sentence(case, tmp_path):
    change, words = BAD_LEROBOT[case]
    change(lerobot(tmp_path, "v3.0", (4, 3)))
    with pytest.raises(LobsDICEError) as caught:
        read(tmp_path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_files_of_a_written_dataset_are_where_the_library_looks(tmp_path, episodes):
    write(tmp_path / "a.lerobot", episodes)
    rows = parquet.read_table(tmp_path / "a.lerobot/meta/episodes/chunk-000/file-000.parquet")
    assert rows["length"].to_pylist() == [2, 5, 4]  # one more than the steps
    assert rows["dataset_from_index"].to_pylist() == [0, 2, 7]
    assert rows["dataset_to_index"].to_pylist() == [2, 7, 11]
    frames = parquet.read_table(tmp_path / "a.lerobot/data/chunk-000/file-000.parquet")
    assert frames["index"].to_pylist() == list(range(11))
    assert frames["next.done"].to_pylist() == [i in (5, 6) for i in range(11)]
    write(tmp_path / "b.lerobot-v2.1", episodes)
    lines = (tmp_path / "b.lerobot-v2.1/meta/episodes.jsonl").read_text().splitlines()
    assert [json.loads(line)["length"] for line in lines] == [2, 5, 4]
    assert (tmp_path / "b.lerobot-v2.1/data/chunk-000/episode_000002.parquet").is_file()


@pytest.mark.parametrize("name", ["a.lerobot", "a.rlds"])
def test_a_folder_of_something_else_is_not_replaced(name, tmp_path, episodes):
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").write_text("mine")
    with pytest.raises(LobsDICEError, match="something else"):
        write(tmp_path / name, episodes)
    assert (tmp_path / name / "mine").read_text() == "mine"


# ---- robomimic ----


def robomimic(path: Path, demos: dict[str, dict[str, np.ndarray]], **masks: list[str]) -> Path:
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = "{}"
        for name, arrays in demos.items():
            file.create_group(f"data/{name}").attrs["num_samples"] = len(arrays["actions"])
            for key, array in arrays.items():
                file[f"data/{name}/{key}"] = array
        for name, members in masks.items():
            file[f"mask/{name}"] = np.array(members, "S")
    return path


def demo(first: float, steps: int = 3, *, after: bool = True) -> dict[str, np.ndarray]:
    """A demonstration whose states count on, with parts of the observation that are not read."""
    counts = first + np.arange(steps + 1.0)
    places = np.stack([counts, counts / 10, counts / 100], axis=1)
    arrays = {
        "obs/robot0_eef_pos": places[:-1],
        "obs/object": counts[:-1, None],
        "obs/agentview_image": np.zeros((steps, 4, 4, 3), np.uint8),
        "states": np.zeros((steps, 45)),
        "actions": np.linspace(-1, 1, steps)[:, None] * [1, 0.5],
        "rewards": np.zeros(steps),
        "dones": (np.arange(steps) == steps - 1).astype(np.int64),
    }
    if after:
        arrays |= {"next_obs/robot0_eef_pos": places[1:], "next_obs/object": counts[1:, None]}
    return arrays


def from_d4rl(first: float) -> dict[str, np.ndarray]:
    """As robomimic's convert_d4rl.py writes it: the last state leads to itself and is done."""
    arrays = demo(first)
    for key in ("robot0_eef_pos", "object"):
        arrays[f"next_obs/{key}"][-1] = arrays[f"obs/{key}"][-1]
    return arrays


def test_demonstrations_are_in_the_order_of_their_numbers(tmp_path):
    path = robomimic(tmp_path / "a.hdf5", {f"demo_{i}": demo(10 * i) for i in (10, 9, 2)})
    found = quietly(path)
    np.testing.assert_array_equal(found.observations[found.starts, 0], [20, 90, 100])
    assert found.state_size == 4 and found.lengths.tolist() == [3, 3, 3]
    np.testing.assert_array_equal(found.observations[found.ends, 3], [23, 93, 103])


def test_dones_are_ends_only_if_an_option_says_so(tmp_path):
    path = robomimic(tmp_path / "a.hdf5", {"demo_0": demo(0), "demo_1": demo(5, 4)})
    with pytest.warns(DataWarning, match="'dones' may mark ends"):
        assert not read(path, **BOUNDS).terminated.any()
    assert quietly(path, terminated_column="dones").terminated.all()


def test_without_next_observations_the_last_action_is_left_out(tmp_path):
    found = quietly(robomimic(tmp_path / "a.hdf5", {"demo_0": demo(0, after=False)}))
    assert found.lengths.tolist() == [2]
    np.testing.assert_array_equal(some(found.actions)[:, 0], [-1, 0])


def test_a_made_up_last_step_is_left_out_with_its_end(tmp_path):
    path = robomimic(tmp_path / "a.hdf5", {"demo_0": from_d4rl(0), "demo_1": demo(50)})
    with pytest.warns(DataWarning, match="the last step of 1 demonstration leads from a state"):
        found = read(path, terminated_column="dones", **BOUNDS)
    assert found.lengths.tolist() == [2, 3] and found.terminated.tolist() == [False, True]


def test_a_mask_is_a_subset(tmp_path):
    demos = {f"demo_{i}": demo(10 * i) for i in range(4)}
    path = robomimic(tmp_path / "a.hdf5", demos, train=["demo_3", "demo_0"], valid=["demo_7"])
    assert quietly(path, mask="train").observations[:, 0].max() == 33
    for mask, words in (("better", "no mask 'better'; the file has train, valid"), ("valid", "no")):
        with pytest.raises(LobsDICEError, match=f"there is {words}"):
            read(path, mask=mask)


def test_keys_are_chosen_and_others_are_named(tmp_path):
    path = robomimic(tmp_path / "a.hdf5", {"demo_0": demo(0)})
    assert quietly(path, observation_keys=["object"]).observation_names == ("object",)
    with pytest.raises(LobsDICEError, match="'eef' matches no column; the columns are object"):
        read(path, observation_keys=["eef"])


def test_a_link_in_a_demonstration_is_refused(tmp_path):
    path = robomimic(tmp_path / "a.hdf5", {"demo_0": demo(0)})
    with h5py.File(path, "a") as file:
        del file["data/demo_0/actions"]
        file["data/demo_0/actions"] = h5py.ExternalLink("/etc/passwd", "/actions")
    with pytest.raises(LobsDICEError, match="actions is a link"):
        read(path)


# ---- RLDS ----


def test_the_checksum_is_crc32c():
    """The values of RFC 3720, appendix B.4, and the definition bit by bit."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43
    content = np.random.default_rng(0).bytes(1500)
    for size in (0, 1, 255, 256, 257, 1023, 1500):
        wanted = 0xFFFFFFFF
        for byte in content[:size]:
            wanted ^= byte
            for _ in range(8):
                wanted = wanted >> 1 ^ (0x82F63B78 if wanted & 1 else 0)
        assert crc32c(content[:size]) == wanted ^ 0xFFFFFFFF


def test_what_tensorflow_datasets_writes_is_read():
    found = quietly(OFFICIAL / "rlds", split="train", observation_keys=["state"])
    assert found.lengths.tolist() == [4, 6, 3]
    assert found.terminated.tolist() == [True, False, False]  # is_last alone is a truncation
    random = np.random.default_rng(0)
    rows, actions = [], []
    for steps in (5, 7, 4):  # as the dataset was made
        for _ in range(steps):
            rows.append(random.normal(size=3))
            random.normal(size=2)
            actions.append(random.uniform(-1, 1, 2))
        actions.pop()
    np.testing.assert_array_equal(found.observations, np.array(rows, np.float32))
    np.testing.assert_array_equal(found.actions, np.array(actions, np.float32))
    assert some(found.rewards).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_all_splits_and_vectors_are_read_without_options():
    with pytest.warns(DataWarning, match="all splits were read: test, train; `subset` chooses one"):
        found = read(OFFICIAL / "rlds")
    names = ("flag", "goal_0", "goal_1", "state_0", "state_1", "state_2")
    assert len(found) == 4 and found.observation_names == names  # without the image


def test_array_records_are_read_by_their_library(tmp_path, episodes):
    write(tmp_path / "a.rlds", episodes)
    shard = tmp_path / "a.rlds" / "a-train.tfrecord-00000-of-00001"
    writer = ArrayRecordWriter(str(shard).replace("tfrecord", "array_record"), "group_size:1")
    for record in records(shard):
        writer.write(bytes(record))
    writer.close()
    shard.unlink()
    np.testing.assert_array_equal(read(tmp_path / "a.rlds").observations, episodes.observations)


def damage(place: int) -> Callable[[Path], None]:
    def change(shard: Path) -> None:
        content = bytearray(shard.read_bytes())
        content[place] ^= 1
        shard.write_bytes(content)

    return change


def claim(shard: Path) -> None:
    """A length far beyond the file, with a checksum that fits."""
    from lobsdice.data.formats.tfrecord import masked

    head = struct.pack("<Q", 1 << 60)
    shard.write_bytes(head + struct.pack("<I", masked(head)) + shard.read_bytes()[12:])


BAD_RLDS = {
    "a damaged length": (damage(3), "record 0: its length is damaged"),
    "a damaged record": (damage(40), "record 0: it is damaged, because its checksum"),
    "an absurd length": (claim, "record 0: it claims to have 1,152,921,504,606,846,976 bytes"),
    "a file that is cut": (
        lambda shard: shard.write_bytes(shard.read_bytes()[:-9]),
        "record 2: the file ends in the middle of it",
    ),
    "a missing shard": (
        lambda shard: shard.rename(shard.with_name(shard.name.replace("-00001", "-00002"))),
        "there are 1 of the 2 files a-train.tfrecord-*",
    ),
}


@pytest.mark.parametrize("case", BAD_RLDS)
def test_a_bad_rlds_dataset_is_one_sentence(case, tmp_path, episodes):
    change, words = BAD_RLDS[case]
    write(tmp_path / "a.rlds", episodes)
    change(tmp_path / "a.rlds" / "a-train.tfrecord-00000-of-00001")
    with pytest.raises(LobsDICEError) as caught:
        read(tmp_path / "a.rlds")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_shard_of_a_split_that_is_named_is_missed(tmp_path, episodes):
    write(tmp_path / "a.rlds", episodes)
    BAD_RLDS["a missing shard"][0](tmp_path / "a.rlds" / "a-train.tfrecord-00000-of-00001")
    with pytest.raises(LobsDICEError, match="there are 1 of the 2 files"):
        read(tmp_path / "a.rlds", split="train")


def test_integers_of_an_example_are_read_with_their_signs(tmp_path, episodes):
    from lobsdice.data.formats.tfrecord import example

    values = np.array([0, 1, -1, 300, -(2**63), 2**63 - 1])
    found = parse_example(memoryview(example({"a": values, "b": [b"x", b""]})), ["a", "b"])
    np.testing.assert_array_equal(found["a"], values)
    assert found["b"] == [b"x", b""]


@pytest.mark.parametrize("name", ["a.robomimic.hdf5", "a.lerobot", "a.lerobot-v2.1", "a.rlds"])
def test_names_and_bounds_of_actions_survive(name, tmp_path):
    box = Box((-1.0, -2.0), (1.0, 2.0), names=("größe", "v"))
    rows = np.arange(8.0).reshape(-1, 2)
    actions = np.zeros((3, 2))
    write(
        tmp_path / name,
        Episodes.from_arrays(rows, lengths=[3], actions=actions, action_space=box),
    )
    found = some(read(tmp_path / name).action_space)
    assert (found, found.names) == (box, box.names)
