"""Files made to harm: they reach nothing outside themselves, and cost no more than they hold."""

import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lobsdice.data.formats import read, write
from lobsdice.errors import DataWarning, LobsDICEError

FLAT = {
    "observations": np.arange(8.0).reshape(4, 2) ** 2,
    "next_observations": np.arange(2.0, 10.0).reshape(4, 2) ** 2,
    "actions": np.linspace(-1, 1, 4)[:, None],
    "terminals": np.array([False, False, False, True]),
}
GROUP = FLAT | {"metadata/action_low": np.array([-1.0]), "metadata/action_high": np.array([1.0])}

Put = Callable[[h5py.File, str], Any]


def refused(path: Path, words: str) -> None:
    with pytest.raises(LobsDICEError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and words in text
    assert "\n" not in text and len(text) < len(str(path)) + 600


def store(path: Path, **others: Put) -> Path:
    """A valid file, but for what the functions put in the place of some arrays."""
    with h5py.File(path, "w") as file:
        for name, array in GROUP.items():
            if name not in others:
                file[name] = array
        for name, put in others.items():
            put(file, name)
    return path


def secret(file: h5py.File) -> Path:
    """Numbers outside of the file, which it must not reach."""
    path = Path(file.filename).with_name("secret.hdf5")
    with h5py.File(path, "w") as other:
        other["numbers"] = FLAT["observations"]
    return path


def external_link(file: h5py.File, name: str) -> None:
    file[name] = h5py.ExternalLink(str(secret(file)), "/numbers")


def link_to_a_pipe(file: h5py.File, name: str) -> None:
    pipe = next(x for x in Path(file.filename).parents if x.name.startswith("test_")) / "pipe"
    os.mkfifo(pipe)
    file[name] = h5py.ExternalLink(str(pipe), "/numbers")


def link_by_another_link(file: h5py.File, name: str) -> None:
    external_link(file, "other")
    file[name] = h5py.SoftLink("/other")


def link_to_itself(file: h5py.File, name: str) -> None:
    file[name] = h5py.SoftLink(f"/{name}")


def external_storage(file: h5py.File, name: str) -> None:
    raw = Path(file.filename).with_name("raw")
    raw.write_bytes(FLAT["observations"].tobytes())
    file.create_dataset(name, (4, 2), np.float64, external=[(str(raw), 0, 64)])


def virtual(file: h5py.File, name: str) -> None:
    layout = h5py.VirtualLayout((4, 2), np.float64)
    layout[:] = h5py.VirtualSource(str(secret(file)), "numbers", (4, 2))
    file.create_virtual_dataset(name, layout)


OUTSIDE = {
    "a link to another file": (external_link, "observations is a link"),
    "a link to a pipe": (link_to_a_pipe, "observations is a link"),
    "a link by another link": (link_by_another_link, "is a link"),
    "a link to itself": (link_to_itself, "observations is a link"),
    "numbers in another file": (external_storage, "takes its numbers from other files"),
    "a virtual array": (virtual, "takes its numbers from other files"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_hdf5_file_reaches_no_other_file(case, tmp_path):
    put, words = OUTSIDE[case]
    refused(store(tmp_path / "bad.hdf5", observations=put), words)


def test_metadata_of_an_hdf5_file_reach_no_other_file(tmp_path):
    name = "metadata/action_low"
    refused(store(tmp_path / "bad.hdf5", **{name: external_link}), "action_low is a link")

    def group(file: h5py.File, name: str) -> None:
        file["metadata"] = h5py.ExternalLink(str(secret(file)), "/")

    gone = dict.fromkeys(("metadata/action_low", "metadata/action_high"), lambda *_: None)
    refused(store(tmp_path / "worse.hdf5", metadata=group, **gone), "metadata is a link")


@pytest.mark.parametrize("case", OUTSIDE)
def test_a_minari_dataset_reaches_no_other_file(case, tmp_path, episodes):
    put, words = OUTSIDE[case]
    write(tmp_path / "bad-v0", episodes)
    with h5py.File(tmp_path / "bad-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1/observations"]
        put(file, "episode_1/observations")
    refused(tmp_path / "bad-v0", words)


def test_groups_that_hold_themselves_are_refused(tmp_path, episodes):
    write(tmp_path / "bad-v0", episodes)
    with h5py.File(tmp_path / "bad-v0" / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/infos/again"] = file["episode_0/infos"]
    refused(tmp_path / "bad-v0", "is another name of something else in the file")


def rewritten(path: Path, signature: bytes, change: Callable[[bytearray, int], None]) -> None:
    """Change the first structure of the HDF5 library with a signature."""
    content = bytearray(path.read_bytes())
    change(content, content.index(signature))
    path.write_bytes(content)


def names_twice(content: bytearray, place: int) -> None:
    """Let the tree of names have the same leaf twice; a few such levels would have no end."""
    content[place + 6] = 2
    content[place + 48 : place + 64] = content[place + 32 : place + 48]


def neighbours_without_end(content: bytearray, place: int) -> None:
    """Let the next node of the tree of names be the same node."""
    content[place + 16 : place + 24] = place.to_bytes(8, "little")


def gaps_without_end(content: bytearray, place: int) -> None:
    """Let the next gap between names be the same gap."""
    gap = 64
    content[place + 16 : place + 24] = gap.to_bytes(8, "little")
    start = int.from_bytes(content[place + 24 : place + 32], "little") + gap
    content[start : start + 16] = gap.to_bytes(8, "little") + (16).to_bytes(8, "little")


@pytest.mark.parametrize("kind", ["bad.hdf5", "bad-v0"])
def test_structures_of_hdf5_files_have_an_end(kind, tmp_path, episodes, monkeypatch):
    monkeypatch.setattr("lobsdice.data.formats.hdf5.STRUCTURE", 64 << 20)
    for signature, change, words in (
        (b"TREE", names_twice, "its list of names is damaged"),
        (b"TREE", neighbours_without_end, ""),
        (b"HEAP", gaps_without_end, "memory allocation failed"),
    ):
        path = tmp_path / kind
        write(path, episodes)
        inner = path if path.is_file() else path / "data" / "main_data.hdf5"
        with h5py.File(inner, "w") as file:  # as others write it
            file["episode_0/observations"] = np.zeros((3, 3))
        rewritten(inner, signature, change)
        refused(path, words)


def inflated(file: h5py.File, name: str) -> None:
    """A chunk of 64 bytes that inflates to 64 million."""
    array = file.create_dataset(name, (4, 2), np.float64, chunks=(4, 2), compression="gzip")
    array.id.write_direct_chunk((0, 0), zlib.compress(bytes(64_000_000)))


def inflated_whole(file: h5py.File, name: str) -> None:
    """A large chunk that inflates to a thousand times its size, although it is not larger."""
    shape = (1 << 17, 1)
    array = file.create_dataset(name, shape, np.float64, chunks=shape, compression="gzip")
    array.id.write_direct_chunk((0, 0), zlib.compress(bytes(200_000_000)))


def compressed_twice(file: h5py.File, name: str) -> None:
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)  # pyright: ignore[reportAttributeAccessIssue]
    made.set_chunk((4, 2))
    made.set_deflate(9)
    made.set_deflate(9)
    space = h5py.h5s.create_simple((4, 2))  # pyright: ignore[reportAttributeAccessIssue]
    kind = h5py.h5t.NATIVE_DOUBLE  # pyright: ignore[reportAttributeAccessIssue]
    h5py.h5d.create(file.id, name.encode(), kind, space, made)  # pyright: ignore[reportAttributeAccessIssue]


def zeros(file: h5py.File, name: str) -> None:
    """Half a gigabyte of zeros in half a megabyte."""
    whole, chunk = (1 << 15, 2048), (1 << 11, 2048)
    array = file.create_dataset(name, whole, np.float64, chunks=chunk, compression="gzip")
    part = zlib.compress(bytes(chunk[0] * chunk[1] * 8), 1)
    for row in range(0, whole[0], chunk[0]):
        array.id.write_direct_chunk((row, 0), part)


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (inflated, "observations has a damaged chunk"),
        (inflated_whole, "observations has a damaged chunk"),
        (compressed_twice, "observations is compressed more than once"),
        (zeros, "observations claims to have 536,870,912 bytes, but the file has only"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_an_hdf5_array_is_not_larger_than_the_file_can_hold(put, words, tmp_path):
    refused(store(tmp_path / "bad.hdf5", observations=put), words)


def test_members_of_an_archive_that_are_not_needed_are_not_read(tmp_path):
    path = tmp_path / "large.npz"
    np.savez(path, **FLAT)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for i in range(2000):
            archive.writestr(f"empty_{i}.npy", b"")
        with archive.open("large.npy", "w") as member:
            for _ in range(100):
                member.write(bytes(1 << 20))
    tracemalloc.start()
    assert read(path).steps == 4
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50 << 20


def test_an_array_of_an_archive_is_not_larger_than_the_file_can_hold(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **{k: v for k, v in FLAT.items() if k != "observations"})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 1000), }" % (40_000)
        with archive.open("observations.npy", "w") as member:
            member.write(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n")
            for _ in range(320):
                member.write(bytes(1_000_000))
    refused(path, "observations claims to have 320,000,128 bytes, but the file has only")


def test_names_of_arrays_are_shown_on_one_line(tmp_path):
    np.savez(tmp_path / "bad.npz", allow_pickle=False, **{"a\nb\x1b[31m": np.zeros(1)})
    refused(tmp_path / "bad.npz", r"the file has a\nb")


def test_texts_of_no_size_are_not_counted_without_end(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **FLAT)
    with zipfile.ZipFile(path, "a") as archive:
        header = b"{'descr': '<U0', 'fortran_order': False, 'shape': (10000000000,), }"
        archive.writestr(
            "observation_names.npy", b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n"
        )
    refused(path, "observation_names claims to have")


def test_other_compressions_of_archives_are_refused(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **FLAT)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("action_low.npy", bytes(1000))
    refused(path, "action_low is compressed in a way that NumPy does not use")


def test_a_parquet_file_with_more_rows_than_it_can_hold_is_refused(tmp_path):
    rows = 40_000_000
    columns = {"episode": np.zeros(rows, np.int8), "obs_0": np.zeros(rows, np.float32)}
    parquet.write_table(pa.table(columns), tmp_path / "bad.parquet")
    refused(tmp_path / "bad.parquet", "the table claims to have 320,000,000 bytes")


def test_a_parquet_file_with_longer_lists_than_it_can_hold_is_refused(tmp_path):
    zeros = pa.FixedSizeListArray.from_arrays(np.zeros(20_000_000, np.float32), 10_000_000)
    parquet.write_table(pa.table({"episode": [0, 0], "obs": zeros}), tmp_path / "bad.parquet")
    refused(tmp_path / "bad.parquet", "the table claims to have 80,000,")


@pytest.mark.parametrize("column", ["source", "episode"])
@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_a_long_text_that_is_stored_once_is_not_copied_to_all_rows(column, kind, tmp_path):
    rows = 4000
    long = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * 500_000])
    columns: dict[str, Any] = {
        "episode": np.arange(rows) // 2,
        "obs_0": np.zeros(rows, np.float32),
        column: long,
    }
    table = pa.table(columns)
    path = tmp_path / "bad.parquet"
    if kind == pa.string():  # the same file, but its schema says that texts are plain
        parquet.write_table(table, path, store_schema=False)
    else:
        parquet.write_table(table, path)
    refused(path, f"column '{column}' claims to have 2,000,000,000 bytes")


def test_texts_in_several_parts_of_a_parquet_file_are_read(tmp_path):
    table = pa.table(
        {
            "episode": ["a", "a", "b", "b", "c", "c"],
            "obs_0": np.arange(6.0) ** 2,
            "source": ["x", "x", "y", "y", "x", "x"],
        }
    )
    parquet.write_table(table, tmp_path / "parts.parquet", row_group_size=2)
    found = read(tmp_path / "parts.parquet")
    assert found.lengths.tolist() == [1, 1, 1] and found.source_names == ("x", "y")
    np.testing.assert_array_equal(found.source, [0, 1, 0])


LONG = b"1" * (3 << 20)
LINES = {
    "a long field": b"episode,obs_0\n0,1\n0," + LONG + b"\n0,2\n",
    "a long name": b"episode,obs_0," + LONG + b"\n0,1,1\n0,2,2\n",
    "a quotation that is never closed": b'episode,obs_0\n0,"' + b"1\n0,2\n" * (1 << 19),
}


@pytest.mark.parametrize("content", LINES.values(), ids=list(LINES))
def test_lines_of_a_csv_file_have_an_end(content, tmp_path):
    (tmp_path / "bad.csv").write_bytes(content)
    refused(tmp_path / "bad.csv", "a line has more than a million characters")


@pytest.mark.parametrize("content", [b"episode,obs_0,\xff\n0,1,2\n0,2,3\n",
                                     b"episode,obs_0,source\n0,1,\xff\n0,2,\xff\n"])  # fmt: skip
def test_text_that_is_not_utf_8_is_told(content, tmp_path):
    (tmp_path / "bad.csv").write_bytes(content)
    refused(tmp_path / "bad.csv", "it is not text in UTF-8")


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".csv", ".parquet"])
def test_pipes_and_devices_are_refused(suffix, tmp_path):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        refused(tmp_path / f"{name}{suffix}", "it is a pipe or a device, not a file")


def test_a_link_to_a_good_file_is_read_and_a_link_to_itself_is_not(tmp_path, episodes):
    write(tmp_path / "good.npz", episodes)
    (tmp_path / "link.npz").symlink_to("good.npz")
    (tmp_path / "loop.npz").symlink_to("loop.npz")
    assert read(tmp_path / "link.npz").steps == episodes.steps
    refused(tmp_path / "loop.npz", "there is no such file or folder")


def test_pipes_and_folders_elsewhere_are_refused_in_minari_datasets(tmp_path, episodes):
    write(tmp_path / "bad-v0", episodes)
    (tmp_path / "bad-v0" / "data" / "elsewhere").symlink_to("/")
    refused(tmp_path / "bad-v0", "elsewhere is a link to a folder")
    (tmp_path / "bad-v0" / "data" / "elsewhere").unlink()
    os.mkfifo(tmp_path / "bad-v0" / "data" / "pipe.arrow")
    refused(tmp_path / "bad-v0", "pipe.arrow: it is a pipe or a device")


METADATA: dict[str, Any] = {
    "nested deeply": "[" * 200_000 + "]" * 200_000,
    "a list": [],
    "a number of episodes that is a text": {"total_episodes": "3"},
    "a number of episodes that is none": {"total_episodes": 1e9},
    "a number of steps that is a list": {"total_steps": [3]},
    "more episodes than there are": {"total_episodes": 10**15},
    "a space that is a list": {"observation_space": []},
    "a space that is nested deeply": {"action_space": "[" * 200_000},
    "a space without a type": {"action_space": "{}"},
    "a space that does not fit its bounds": {
        "action_space": '{"type": "Box", "dtype": "float64", "shape": [100000000000], "low": [0], '
        '"high": [1]}'
    },
    "a backend that does not exist": {"data_format": "pickle"},
    "labels that are a text": {"lobsdice": "hello"},
    "labels of the wrong kind": {"lobsdice": {"source": "x", "source_names": 3}},
    "labels of no shape": {"lobsdice": {"source": [[1], [2, 3]], "source_names": ["a"]}},
}


@pytest.mark.parametrize("case", METADATA)
def test_ill_typed_metadata_of_minari_are_a_sentence(case, tmp_path, episodes):
    write(tmp_path / "bad-v0", episodes)
    path = tmp_path / "bad-v0" / "data" / "metadata.json"
    change = METADATA[case]
    if isinstance(change, dict):
        change = json.loads(path.read_text()) | change
    path.write_text(change if isinstance(change, str) else json.dumps(change))
    refused(tmp_path / "bad-v0", "")


@pytest.mark.parametrize("values", [["yes"] * 4, np.array([b"yes"] * 4)], ids=["any size", "fixed"])
def test_success_in_words_is_a_warning(values, tmp_path):
    path = store(tmp_path / "words.hdf5", success=lambda file, name: file.create_dataset(
        name, data=values))  # fmt: skip
    with pytest.warns(DataWarning, match="succeeded was not read: success must be numbers, not"):
        assert read(path).success is None


FULL = """
import os, resource, sys
import numpy as np
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import write
random = np.random.default_rng(0)
parts = Episodes.from_arrays(
    random.normal(size=(20_002, 3)),
    lengths=[10_000, 10_000],
    terminated=[True, False],
    actions=random.uniform(-1, 1, (20_000, 2)),
)
os.chdir(sys.argv[1])
for room in (0, 3_000, 100_000, 300_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    for name in ("a.hdf5", "a-v0", "a.npz", "a.csv", "a.parquet"):
        try:
            write(name, parts)
        except Exception as error:
            print(type(error).__name__, str(error).count("\\n"), str(error)[:15])
        print(os.listdir("."))
"""


def test_a_full_disk_is_told_in_a_sentence_and_leaves_no_file(tmp_path):
    """The processes may not write large files, as if the disk were full."""
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    said, left = result.stdout.splitlines()[::2], result.stdout.splitlines()[1::2]
    assert set(left) == {"[]"} and len(left) == 20
    assert all(line.startswith("LobsDICEError 0 cannot write a") for line in said)


def test_a_minari_dataset_is_written_to_a_relative_path(tmp_path, monkeypatch, episodes):
    monkeypatch.chdir(tmp_path)
    write("ours-v0", episodes)
    assert read("ours-v0").steps == episodes.steps
    assert os.listdir(tmp_path) == ["ours-v0"]
