"""An attack on what lobsdice promises: mutated files, damaged run folders, and killed trainings.

    python benchmarks/attack.py                                  # a few minutes on two cores
    python benchmarks/attack.py --files 100000 --runs 40         # hours
    python benchmarks/attack.py --parts files --only CSV --start 123 --files 1     # one file again

Files: bytes of small valid files are changed at random, and the files are read in other processes.
A file may be read or refused by one sentence. All else is a failure: another error, a crash, more
than `--seconds`, more than `--megabytes`, or numbers that are not finite.
Folders: the damages of tests/training/test_damage.py, each resumed to the same bytes or refused.
Kills: trainings are killed at random moments and resumed until they end. Their files must have the
same bytes as those of a training that nobody killed.

It prints a table, and exits with 1 after a failure.
"""

import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import tyro
from pyarrow import parquet

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read, write
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy, load_policy

ROOT = Path(__file__).resolve().parents[1]

#: Files that one process reads before the next one starts.
BATCH = 250

#: Failures of each attack that are shown.
SHOWN = 10


# ---- Valid files ----


def episodes(random: np.random.Generator) -> Episodes:
    """Four short episodes of two sources."""
    return Episodes.from_arrays(
        random.normal(size=(20, 3)),
        lengths=[3, 5, 2, 6],
        terminated=[True, False, False, True],
        actions=random.uniform(-1, 1, (16, 2)),
        rewards=random.normal(size=16),
        action_space=Box.of([-1, -1], [1, 1]),
        source=[0, 0, 1, 1],
        source_names=["good", "bad"],
        observation_names=["x", "y", "z"],
        success=[1, 0, -1, 1],
    )


def flat(found: Episodes, folder: Path) -> dict[str, np.ndarray]:
    """The same as D4RL's arrays."""
    write(folder / "flat.hdf5", found)
    with h5py.File(folder / "flat.hdf5") as file:
        return {str(key): np.asarray(file[key]) for key in file if key != "metadata"}


def make_archives(folder: Path, found: Episodes) -> list[Path]:
    write(folder / "ours.npz", found)
    np.savez_compressed(folder / "flat.npz", allow_pickle=False, **flat(found, folder))
    return [folder / "ours.npz", folder / "flat.npz"]


def make_hdf5(folder: Path, found: Episodes) -> list[Path]:
    arrays = flat(found, folder)
    with h5py.File(folder / "gzip.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, compression="gzip", shuffle=True)
    return [folder / "flat.hdf5", folder / "gzip.hdf5"]


def make_csv(folder: Path, found: Episodes) -> list[Path]:
    write(folder / "table.csv", found)
    return [folder / "table.csv"]


def make_parquet(folder: Path, found: Episodes) -> list[Path]:
    write(folder / "table.parquet", found)
    columns = {
        "episode": np.repeat(list("abcd"), found.lengths + 1),
        "obs": found.observations.tolist(),
    }
    parquet.write_table(pa.table(columns), folder / "lists.parquet", row_group_size=5)
    return [folder / "table.parquet", folder / "lists.parquet"]


def make_minari(folder: Path, found: Episodes) -> list[Path]:
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    write(folder / "hdf5-v0", found)
    copied = MinariStorage.read(folder / "hdf5-v0" / "data")
    paths = [folder / "hdf5-v0"]
    for kind in ("arrow", "parquet"):
        path = folder / f"{kind}-v0"
        (path / "data").mkdir(parents=True)
        storage = MinariStorage.new(
            path / "data", copied.observation_space, copied.action_space, data_format=kind
        )
        for part in copied.get_episodes(range(copied.total_episodes)):
            part["actions"] = part["actions"].astype(np.float64)  # the type of the space
            storage.update_episodes([EpisodeBuffer(**part)])
        paths.append(path)
    return paths


def make_policies(folder: Path, found: Episodes) -> list[Path]:
    random = np.random.default_rng(0)
    normaliser = Normaliser(np.zeros(3, "f4"), np.ones(3, "f4"), found.observation_names)
    paths = []
    for name, space, outputs in (("box", Box.of([-1, 0], [1, 2]), 4), ("count", Discrete(4), 4)):
        sizes = [(3, 8), (8, 8), (8, outputs)]
        weights = tuple(random.normal(size=size).astype(np.float32) for size in sizes)
        biases = tuple(random.normal(size=size[1]).astype(np.float32) for size in sizes)
        Policy(weights, biases, normaliser, space).save(folder / f"{name}.safetensors")
        paths.append(folder / f"{name}.safetensors")
    return paths


def read_episodes(path: Path) -> None:
    found = read(path)
    assert np.isfinite(found.observations).all(), "observations are not finite"


def act(path: Path) -> None:
    policy = load_policy(path)
    action = policy(policy.normaliser.mean + np.linspace(-3, 3, 5)[:, None].astype(np.float32))
    assert np.isfinite(action).all(), "actions are not finite"


Make = Callable[[Path, Episodes], list[Path]]


class Target(NamedTuple):
    """A maker of valid files of a format, and a reader."""

    make: Make
    read: Callable[[Path], None]


TARGETS = {
    "CSV": Target(make_csv, read_episodes),
    "npz": Target(make_archives, read_episodes),
    "HDF5": Target(make_hdf5, read_episodes),
    "Minari": Target(make_minari, read_episodes),
    "Parquet": Target(make_parquet, read_episodes),
    "policy": Target(make_policies, act),
}


# ---- Mutations ----

Change = Callable[[bytes, random.Random], bytes]

#: Numbers that are written over numbers in texts.
NUMBERS = (b"9" * 30, b"-1", b"1e999", b"nan", b"0", b"2147483648", b"-9223372036854775809", b"[]")


def flip(old: bytes, draw: random.Random) -> bytes:
    """Change some bits, anywhere or near an end, where headers are."""
    new = bytearray(old)
    first, last = draw.choice([(0, len(new)), (0, 400), (len(new) - 400, len(new))])
    for _ in range(draw.randint(1, 8)):
        new[draw.randrange(max(0, first), min(last, len(new)))] ^= 1 << draw.randrange(8)
    return bytes(new)


def cut(old: bytes, draw: random.Random) -> bytes:
    return old[: draw.randrange(len(old))]


def block(old: bytes, draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(len(old))
    return start, min(len(old), start + draw.choice([1, 2, 4, 8, 16, 64, 512, 4096]))


def splice(old: bytes, draw: random.Random) -> bytes:
    """Write a block over another place."""
    start, stop = block(old, draw)
    place = draw.randrange(len(old))
    return old[:place] + old[start:stop] + old[place + stop - start :]


def double(old: bytes, draw: random.Random) -> bytes:
    start, stop = block(old, draw)
    return old[:stop] + old[start:stop] * draw.choice([1, 1, 2, 1000]) + old[stop:]


def drop(old: bytes, draw: random.Random) -> bytes:
    start, stop = block(old, draw)
    return old[:start] + old[stop:]


def huge(old: bytes, draw: random.Random) -> bytes:
    """Make a number huge, or of another kind: of digits where there are some, else of bytes."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", old))
    if numbers and draw.random() < 0.5:
        found = draw.choice(numbers)
        return old[: found.start()] + draw.choice(NUMBERS) + old[found.end() :]
    width = draw.choice([1, 2, 4, 8])
    place = draw.randrange(len(old))
    value = draw.choice([b"\xff" * width, b"\xff" * (width - 1) + b"\x7f", bytes(width)])
    return old[:place] + value + old[place + width :]


CHANGES: tuple[Change, ...] = (flip, cut, splice, double, drop, huge)


def mutated(old: bytes, draw: random.Random) -> bytes:
    """Change a file; of an archive often a member, with a checksum that fits again."""
    for _ in range(draw.choice([1, 1, 1, 1, 2, 3])):
        change = draw.choice(CHANGES)
        inner = old[:2] == b"PK" and draw.random() < 0.7
        old = (in_member(old, change, draw) if inner else change(old, draw)) or b"\0"
    return old


def in_member(old: bytes, change: Change, draw: random.Random) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(old)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # an earlier change damaged the archive
        members = {}
    if not members:
        return change(old, draw)
    name = draw.choice(list(members))
    members[name] = change(members[name] or b"\0", draw)
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w", draw.choice([0, 8])) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return new.getvalue()


# ---- Reading mutated files in other processes ----


@dataclass
class Counts:
    """The results of the cases of one attack."""

    seed: int | str
    good: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def cases(self) -> int:
        return self.good + self.refused + len(self.failures)


@dataclass(frozen=True)
class Limits:
    seconds: float
    megabytes: int


class Batch:
    """A process that reads mutated files, one after another."""

    def __init__(self, folder: Path, name: str, seed: int, numbers: range, limits: Limits):
        self.numbers, self.limits = numbers, limits
        context = multiprocessing.get_context("fork")
        self.tally = context.Array("q", 4)  # files begun, read, refused, and failed
        self.queue = context.SimpleQueue()
        arguments = (folder, name, seed, numbers, limits, self.tally, self.queue)
        self.process = context.Process(target=read_all, args=arguments, daemon=True)
        self.process.start()
        self.seen, self.since = 0, time.monotonic()

    def ended(self) -> str | None:
        """Why the process ended: "" if it read all files. None if it goes on."""
        if self.tally[0] != self.seen:
            self.seen, self.since = self.tally[0], time.monotonic()
        if self.process.is_alive():
            if time.monotonic() - self.since < self.limits.seconds:
                return None
            self.process.kill()
            self.process.join()
            return f"took more than {self.limits.seconds:g} s"
        self.process.join()
        return "" if self.process.exitcode == 0 else f"ended the process ({self.process.exitcode})"


def read_all(folder: Path, name: str, seed: int, numbers: range, limits: Limits, tally, queue):
    """Mutate and read files, and count what comes of it, in a process of its own."""
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the HDF5 library says much
    room = 4 * limits.megabytes << 20
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for number in numbers:
            tally[0] += 1
            try:
                Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
                outcome = read_one(folder, Path(place), name, seed, number)
                assert peak() < limits.megabytes, f"{peak()} MB"
            except BaseException:
                queue.put(f"{number}: {traceback.format_exc(limit=-3)}")
                outcome = 3
            tally[outcome] += 1


def peak() -> int:
    """The most megabytes that this process used."""
    return int(re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[0]) >> 10


def read_one(folder: Path, place: Path, name: str, seed: int, number: int) -> int:
    """1 if the mutated file of this number was read, 2 if it was refused."""
    draw = random.Random(f"{seed} {name} {number}")
    original = draw.choice(sorted((folder / name).iterdir()))
    path = place / original.name
    if original.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(original, path)
        file = draw.choice([p for p in sorted(path.rglob("*")) if p.is_file()])
    else:
        file = path
        shutil.copyfile(original, path)
    file.write_bytes(mutated(file.read_bytes(), draw))
    try:
        TARGETS[name].read(path)
    except LobsDICEError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error), str(error)
        return 2
    return 1


def attack_format(folder: Path, name: str, seed: int, numbers: range, limits: Limits) -> Counts:
    """Read the mutated files of one format in as many processes as there are cores."""
    counts = Counts(seed)
    waiting = [numbers[i : i + BATCH] for i in range(0, len(numbers), BATCH)][::-1]
    running: list[Batch] = []
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            running.append(Batch(folder, name, seed, waiting.pop(), limits))
        time.sleep(0.02)
        for batch in list(running):
            why = batch.ended()
            if why is None:
                continue
            running.remove(batch)
            begun, good, refused, _ = batch.tally
            counts.good += good
            counts.refused += refused
            while not batch.queue.empty():
                counts.failures.append(f"{name} {batch.queue.get()}")
            if why:
                counts.failures.append(f"{name} {batch.numbers[begun - 1]}: {why}")
                waiting.append(batch.numbers[begun:])
    return counts


def attack_files(what: "Attack") -> Iterator[tuple[str, Counts]]:
    numbers = range(what.start, what.start + what.files)
    limits = Limits(what.seconds, what.megabytes)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, target in TARGETS.items():
            if what.only and name not in what.only:
                continue
            (folder / "made").mkdir()
            (folder / name).mkdir()
            for path in target.make(folder / "made", episodes(np.random.default_rng(0))):
                target.read(path)
                shutil.move(path, folder / name / path.name)
            shutil.rmtree(folder / "made")
            yield f"{name} files", attack_format(folder, name, what.seed, numbers, limits)


# ---- Run folders ----


def attack_folders(_: "Attack") -> Iterator[tuple[str, Counts]]:
    """The damages of the tests. A test that passes is a folder resumed to the same bytes, or a
    sentence."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", f"{place}/runs"]
        command = [sys.executable, "-m", "pytest", "tests/training/test_damage.py", *options]
        result = subprocess.run(
            [*command, f"--junitxml={report}"], cwd=ROOT, capture_output=True, text=True
        )
        text = report.read_text() if report.exists() else ""
    tests = int((re.search(r' tests="(\d+)"', text) or [0, 0])[1])
    failed = re.findall(r"^(?:FAILED|ERROR) (.*)$", result.stdout, re.MULTILINE)
    if result.returncode and not failed:
        failed = [result.stdout[-2000:] + result.stderr[-2000:]]
    yield "damaged run folders", Counts("-", good=tests - len(failed), failures=failed)


# ---- Kills ----

TRAINING = (
    "bc --env CartPole-v1 --episodes 1 --steps 1500 --every 50 --seeds 2 --width 16 --batch-size 8"
)


def lobsdice(*words: Any) -> subprocess.Popen:
    command = [sys.executable, "-m", "lobsdice", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    )


def attack_runs(what: "Attack") -> Iterator[tuple[str, Counts]]:
    counts = Counts(what.seed)
    kills = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        random = np.random.default_rng(0)
        for name, size in (("demos", 60), ("logs", 200)):
            found = Episodes.from_arrays(
                random.normal(size=(size + 2, 4)),
                lengths=[size // 2] * 2,
                terminated=[True, False],
                actions=random.integers(0, 2, size),
                action_space=Discrete(2),
            )
            write(folder / f"{name}.npz", found)
        start = time.monotonic()
        whole = run_to_the_end(folder, "whole")
        duration = time.monotonic() - start
        for number in range(what.runs):
            draw = np.random.default_rng([what.seed, number])
            try:
                killed = kill_and_resume(folder, f"run-{number}", draw, duration)
                kills += killed
                differing = differences(whole, contents(folder / f"run-{number}"))
                assert not differing, f"after {killed} kills these differ: {differing}"
                counts.good += 1
            except AssertionError as error:
                counts.failures.append(f"run {number}: {error}")
    counts.note = f", {kills} kills"
    yield "killed runs", counts


def begin(folder: Path, name: str) -> subprocess.Popen:
    """Resume a run, or start it if it was killed before there was something to resume."""
    if (folder / name / "config.json").exists():
        return lobsdice("resume", folder / name)
    files = ("--expert", folder / "demos.npz", "--offline", folder / "logs.npz")
    return lobsdice("train", *TRAINING.split(), *files, "--out", folder / name)


def run_to_the_end(folder: Path, name: str) -> dict[str, bytes]:
    process = begin(folder, name)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said[-2000:]
    return contents(folder / name)


def kill_and_resume(folder: Path, name: str, draw: np.random.Generator, duration: float) -> int:
    """Kill a run up to four times, at random moments, and let it end; return how often."""
    kills = 0
    for _ in range(4):
        process = begin(folder, name)
        try:
            said, _ = process.communicate(timeout=float(draw.uniform(0.2, 1)) * duration)
            assert process.returncode == 0, said[-2000:]
            return kills
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    run_to_the_end(folder, name)
    return kills


def contents(folder: Path) -> dict[str, bytes]:
    """All files but config.json, which names the folder."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "config.json"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


# ---- All of it ----

PARTS = {"files": attack_files, "folders": attack_folders, "kills": attack_runs}


@dataclass(frozen=True)
class Attack:
    """Attack lobsdice, and print what came of it."""

    files: int = 1000
    """Mutated files of each format."""
    runs: int = 3
    """Trainings to kill."""
    seed: int = 0
    """Seed of all draws."""
    parts: tuple[Literal["files", "folders", "kills"], ...] = ("files", "folders", "kills")
    """Parts of the attack."""
    only: tuple[str, ...] = ()
    """Formats to attack. Without it, all."""
    start: int = 0
    """Number of the first file of each format."""
    seconds: float = 20.0
    """The most seconds to read one file."""
    megabytes: int = 1500
    """The most memory of a process that reads files."""
    json: bool = False
    """Print JSON instead of a table."""

    def __call__(self) -> int:
        found = {}
        for part in self.parts:
            for name, counts in PARTS[part](self):
                found[name] = counts
                print(f"{name}: {counts.cases:,} cases", file=sys.stderr, flush=True)
        print(json.dumps({k: vars(v) for k, v in found.items()}) if self.json else table(found))
        for counts in found.values():
            for failure in counts.failures[:SHOWN]:
                print(f"\nFAILED {failure}", file=sys.stderr)
        return any(counts.failures for counts in found.values())


def table(found: dict[str, Counts]) -> str:
    """A Markdown table."""
    lines = ["| attack | seed | cases | read or same bytes | refused | failed |", "|---" * 6 + "|"]
    for name, c in found.items():
        cells = (name, c.seed, f"{c.cases:,}{c.note}", f"{c.good:,}", f"{c.refused:,}")
        lines.append(f"| {' | '.join(map(str, cells))} | {len(c.failures):,} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(tyro.cli(Attack)())
