"""The part of Ray's executor that runs on the machines of the cluster."""

import hashlib
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.data.files import atomic, cache_folder
from lobsdice.errors import LobsDICEError
from lobsdice.executors.job import Job
from lobsdice.executors.program import end, start

#: Seconds between two looks at what a program has written.
GLANCE = 1.0
#: The files of a fleet that are written last, because others must not be older.
LAST = ("checkpoint.safetensors", "checkpoint-previous.safetensors")
#: Files that are of no use elsewhere.
HERE = ("lock",)


class Letter(NamedTuple):
    """News of a fleet."""

    folder: str
    files: Mapping[str, bytes]
    """The contents of files that are new, by their paths in the folder."""
    where: str = ""
    attempt: int = 0
    """1 when the program starts for the first time; 0 if it does not start."""


@dataclass(frozen=True)
class Copies:
    """References of the blocks of each file of the data in Ray's store."""

    blocks: Mapping[str, list[Any]]
    name: str
    """A name that no other data has."""


@dataclass
class Mailbox:
    """Keeps the files of fleets for the next machine, and news for the one that started all."""

    letters: list[Letter] = field(default_factory=list)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Keep the files of a fleet that was begun earlier."""
        self.files.setdefault(folder, {}).update(files)

    def begin(self, folder: str, where: str) -> tuple[int, dict[str, bytes]]:
        """Note that a program starts; return its number and the files that it goes on with."""
        with self.lock:
            self.attempts[folder] = attempt = self.attempts.get(folder, 0) + 1
            self.letters.append(Letter(folder, {}, where, attempt))
            return attempt, dict(self.files.get(folder, {}))

    def send(self, folder: str, attempt: int, files: Mapping[str, bytes]) -> None:
        """Keep the newest files of a fleet, and pass them on.

        A machine that only seemed lost may still train. Its files would mix with those of the
        program that has taken over, so they are thrown away.
        """
        with self.lock:
            if attempt == self.attempts[folder]:
                self.files.setdefault(folder, {}).update(files)
                self.letters.append(Letter(folder, dict(files)))

    def take(self) -> list[Letter]:
        """All news since the last time."""
        with self.lock:
            letters, self.letters = self.letters, []
            return letters


def sees(sizes: Mapping[str, int]) -> bool:
    """True if this machine has files of these sizes."""
    try:
        return all(os.path.getsize(path) == size for path, size in sizes.items())
    except OSError:
        return False


def train(job: Job, copies: Copies | None, mailbox: Any, *, shares_gpu: bool) -> int:
    """Run the program of a fleet and return its exit status; without copies, in its own folder."""
    import ray

    name = str(job.folder)
    begun: Any = ray.get(mailbox.begin.remote(name, socket.gethostname()))
    attempt, files = begun
    if copies is None:
        if not job.folder.parent.exists():
            raise LobsDICEError(
                f"{socket.gethostname()} does not see {job.folder.parent}; "
                "without storage that all machines share, add --storage copied"
            )
        return _run(start(job, shares_gpu=shares_gpu))
    here = cache_folder() / "ray" / f"{os.getpid()}-{hashed(name)}"
    write_files(here, files)
    sent = Sent(
        here, lambda new: ray.get(mailbox.send.remote(name, attempt, new)), seen=stamps(here)
    )
    try:
        return _train_copy(job, copies, sent, shares_gpu)
    finally:
        shutil.rmtree(here, ignore_errors=True)


def _train_copy(job: Job, copies: Copies, sent: "Sent", shares_gpu: bool) -> int:
    """Run the program in a folder of this machine, and send what it writes."""
    root = cache_folder() / "ray" / "data" / copies.name
    for path, blocks in copies.blocks.items():
        place(root / path.lstrip("/"), blocks)
    moved = moved_paths(copies.blocks, root) | {str(job.folder): str(sent.folder)}
    status = _run(start(elsewhere(job, moved), shares_gpu=shares_gpu), sent.look)
    sent.send_new()  # now, however short ago the last look was
    return status


def _run(process: subprocess.Popen[bytes], look: Any = lambda: None) -> int:
    """Wait for a program, and look at it now and then. It ends if this is cancelled."""
    try:
        while process.poll() is None:
            time.sleep(GLANCE / 10)
            look()
        with process:
            return process.returncode
    except BaseException:
        end(process)
        raise


@dataclass
class Sent:
    """Sends the files of a folder that have changed."""

    folder: Path
    send: Any
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    last: float = 0.0

    def look(self) -> None:
        """Send what is new, at most once in `GLANCE` seconds."""
        if time.monotonic() - self.last >= GLANCE:
            self.send_new()

    def send_new(self) -> None:
        """Send the files that are new since the last time."""
        now = stamps(self.folder)
        new = [name for name in now if now[name] != self.seen.get(name)]
        if not new:
            return
        # The checkpoint is read first and written last: then all other files are as new as it is.
        new.sort(key=lambda name: name not in LAST)
        contents = {name: _contents(self.folder / name) for name in new}
        self.send({n: data for n, data in reversed(contents.items()) if data is not None})
        self.seen, self.last = now, time.monotonic()


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of each file of a fleet."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if name in HERE or path.name.startswith("."):
            continue
        with suppress(FileNotFoundError):  # replaced at this moment
            facts = path.stat()
            if stat.S_ISREG(facts.st_mode):
                found[name] = (facts.st_size, facts.st_mtime_ns)
    return found


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, by their paths in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in files.items():
        with atomic(folder / name) as temporary:
            temporary.write_bytes(contents)


def place(path: Path, blocks: list[Any]) -> None:
    """Write a file of Ray's store, unless it is there."""
    import ray

    if not path.exists():
        with atomic(path) as temporary, temporary.open("wb") as file:
            for block in blocks:
                file.write(ray.get(block))


def moved_paths(paths: Iterable[str], root: Path) -> dict[str, str]:
    """The new paths of files that were copied below `root`, and of the folders that hold them."""
    moved = {str(p) for path in paths for p in (Path(path), *Path(path).parents)} - {"/"}
    return {path: f"{root}{path}" for path in moved}


def elsewhere(job: Job, moved: Mapping[str, str]) -> Job:
    """The job with other paths."""
    arguments = tuple(_renamed(text, moved) for text in job.arguments)
    variables = tuple((name, _renamed(text, moved)) for name, text in job.variables)
    folder = Path(moved[str(job.folder)])
    return replace(job, folder=folder, arguments=arguments, variables=variables)


def _renamed(text: str, moved: Mapping[str, str]) -> str:
    """The text with new paths in the place of old ones."""
    longest_first = "|".join(re.escape(path) for path in sorted(moved, key=len, reverse=True))
    whole = rf"(?<![\w./-])({longest_first})(?=[\"/]|$)"
    return re.sub(whole, lambda found: moved[found[1]], text)


def hashed(*texts: str) -> str:
    """A short name for some texts."""
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def _contents(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:  # replaced at this moment
        return None
