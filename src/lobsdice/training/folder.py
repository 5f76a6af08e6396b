"""The run folder: the files of a fleet, from which an interrupted training continues.

    config.json              everything that determines the runs, and the versions of packages
    metrics.csv              tidy rows: step, run, seed, returns, losses
    policies/                last-<run>.safetensors, best-<run>, selected-<run>
    checkpoint.safetensors   the state of all runs, the step, a hash of the configuration, and
                             copies of metrics.csv and of the policies, all with checksums
    checkpoint-previous.safetensors    the checkpoint before
    scores.safetensors       what was found about logged steps before training, if anything
    lock                     exists while a process trains here

Each file is replaced atomically, the checkpoint last. So a run that is killed at any moment can
continue from its last checkpoint and end with the same bits. A file that is damaged is written
again from the checkpoint. If the checkpoint is damaged, the one before takes its place.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lobsdice.console import warn
from lobsdice.data.files import atomic, csv_bytes
from lobsdice.data.prepare import Data
from lobsdice.data.steps import Steps
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy, load_policy, policy_name
from lobsdice.training.checkpoint import (
    METRICS,
    Checkpoint,
    DamagedError,
    named_leaves,
    opened,
    packed,
)
from lobsdice.training.config import check_config, digest, made_with, refuse_change, warn_of_change
from lobsdice.training.loggers import NAMES, Row
from lobsdice.training.rows import Line, parse_lines, read_lines, read_rows as read_rows, rows_of

CONFIG, CHECKPOINT = "config.json", "checkpoint.safetensors"
PREVIOUS = "checkpoint-previous.safetensors"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one fleet."""

    path: Path
    fingerprint: str | None = None
    """The hash of the configuration that this process trains; None if it only reads."""

    def begin(
        self, run: Mapping[str, Any], about: Mapping[str, Any], *, resume: bool
    ) -> "RunFolder":
        """Write config.json, or with `resume` check that the folder holds the same runs.

        Returns the folder to write to.
        """
        if resume:
            config = self.config()
            refuse_change(self.path, config["run"], json.loads(json.dumps(run)))
            warn_of_change(config["made_with"], made_with())
            self._sweep()
        else:
            self.refuse_existing()
            config = {"run": run, "made_with": made_with(), "about": about}
            self._write(CONFIG, (json.dumps(config, indent=2) + "\n").encode())
        return replace(self, fingerprint=digest(run))

    def refuse_existing(self) -> None:
        """Raise if the folder already holds runs."""
        if os.path.exists(self.path) and not self.path.is_dir():
            raise LobsDICEError(f"{self.path} is a file, but runs need a folder")
        if any(os.path.exists(self.path / name) for name in (CONFIG, CHECKPOINT, PREVIOUS)):
            raise LobsDICEError(
                f"{self.path} already holds a run; resume it, or choose another folder"
            )

    def config(self) -> dict[str, Any]:
        """The contents of config.json."""
        path = self.path / CONFIG
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            check_config(config)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LobsDICEError(f"{self.path} is not a run folder") from error
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise LobsDICEError(f"{path} cannot be read: {error}") from error
        return config

    def write_rows(self, rows: Sequence[Row]) -> bytes:
        """Replace metrics.csv and return its contents."""
        return self._write(METRICS, csv_bytes(rows, line_end="\r\n"))

    def write_policy(self, which: str, run: int, policy: Policy) -> bytes:
        """Replace a policy of a run and return the contents of its file."""
        return self._write(policy_name(which, run), policy.to_bytes())

    def rows(self) -> list[Row]:
        """The rows of metrics.csv; raises if rows are missing that the checkpoint knows."""
        # The checkpoint first: training may write both files meanwhile, and metrics.csv first.
        known = self._known_lines()
        path = self.path / METRICS
        lines = read_lines(path) if path.exists() else []
        if lines[: len(known)] != known:
            raise LobsDICEError(
                f"{path} is damaged: it is not what the checkpoint remembers; "
                f"`lobsdice resume {self.path}` restores it"
            )
        rows = rows_of(path, lines, names=NAMES)
        if len({(row["step"], row["run"]) for row in rows}) < len(rows):
            raise LobsDICEError(f"{path} is damaged: some rows are there twice")
        return rows

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint, and keep the last one beside it."""
        assert self.fingerprint, "only a folder that `begin` returned can be written to"
        if (self.path / CHECKPOINT).exists():
            with atomic(self.path / PREVIOUS) as temporary:
                _link(self.path / CHECKPOINT, temporary)
        self._write(CHECKPOINT, packed(checkpoint, self.fingerprint))

    def read_checkpoint(self, like: Any) -> Checkpoint | None:
        """The newest sound checkpoint, or None; its state has the structure of `like`."""
        found = self._newest(like)
        return found and found[1]

    def restore(self, like: Any) -> Checkpoint | None:
        """Read the newest sound checkpoint, and put all files back to what they were with it."""
        found = self._newest(like)
        if found is None:
            return None
        path, checkpoint = found
        if METRICS not in checkpoint.files:
            raise LobsDICEError(
                f"{path} was written by an earlier version of lobsdice, without checksums; "
                "this version cannot resume it"
            )
        if path.name == PREVIOUS:
            _move(path, self.path / CHECKPOINT)
        self._tell_damage(checkpoint.files[METRICS])
        for name, contents in checkpoint.files.items():
            if _contents(self.path / name) != contents:
                self._write(name, contents)
        return checkpoint

    def forget_checkpoint(self) -> None:
        """Remove the checkpoints, from which nothing continues any more."""
        for name in (PREVIOUS, CHECKPOINT):
            (self.path / name).unlink(missing_ok=True)

    def failures(self) -> dict[int, str]:
        """The step and the reason, for each run that had stopped at the last checkpoint."""
        path = self._checkpoint_paths()[:1]
        if not path:
            return {}
        with opened(path[0]) as file:
            return file.failures

    def policy_path(self, which: str, run: int) -> Path:
        """The file of a run's `last`, `best` or `selected` policy."""
        return self.path / policy_name(which, run)

    def policies(self, which: str = "last") -> dict[int, Policy]:
        """The `last`, `best` or `selected` policy of each run; runs that failed early have none."""
        paths = {i: self.policy_path(which, i) for i in range(len(self.config()["run"]["runs"]))}
        found = {i: load_policy(path) for i, path in paths.items() if path.exists()}
        if not found:
            raise LobsDICEError(f"{self.path} holds no {which} policies (yet)")
        return found

    def _checkpoint_paths(self) -> list[Path]:
        """The files of checkpoints that exist, the newest first."""
        paths = [self.path / name for name in (CHECKPOINT, PREVIOUS)]
        return [path for path in paths if path.exists()]

    def _newest(self, like: Any) -> tuple[Path, Checkpoint] | None:
        """The newest sound checkpoint and its file; a warning tells if it is not the newest."""
        paths = self._checkpoint_paths()
        why = f"{self.path / CHECKPOINT} is missing"
        for path in paths:
            try:
                checkpoint = self._read(path, like)
            except DamagedError as error:
                if path == paths[-1]:
                    raise
                why = str(error)
                continue
            if path.name == PREVIOUS:
                warn(f"{why}; the checkpoint before it, of step {checkpoint.step}, is used")
            return path, checkpoint
        return None

    def _read(self, path: Path, like: Any) -> Checkpoint:
        names = [name for name, _ in named_leaves(like)]
        with opened(path) as file:
            if not set(names) <= file.names:
                raise LobsDICEError(f"{path} holds other networks than this version of lobsdice")
            leaves = [file.array(name) for name in names]
            files = {name: file.file(name) for name in file.files()}
        fits = [x.shape for x in leaves] == [x.shape for x in jax.tree.leaves(like)]
        fingerprint = self.fingerprint or digest(self.config()["run"])
        if not fits or file.config != fingerprint:
            raise LobsDICEError(f"{path} does not belong to the run of {self.path / CONFIG}")
        state = jax.tree.unflatten(jax.tree.structure(like), map(jax.numpy.asarray, leaves))
        return Checkpoint(file.step, state, file.failures, files)

    def _known_lines(self) -> list[Line]:
        """The lines of metrics.csv that the newest sound checkpoint has."""
        for path in self._checkpoint_paths():
            with suppress(DamagedError), opened(path) as file:
                if METRICS not in file.files():
                    return []
                return parse_lines(path, file.file(METRICS))
        return []

    def _tell_damage(self, known: bytes) -> None:
        """Say so if metrics.csv is not what the checkpoint remembers."""
        path = self.path / METRICS
        try:
            lines, wanted = read_lines(path), parse_lines(path, known)
            sound = lines[: len(wanted)] == wanted
        except LobsDICEError:
            sound = False
        if not sound:
            warn(f"{path} is damaged or missing; the checkpoint's copy replaces it")

    def _write(self, name: str, contents: bytes) -> bytes:
        with atomic(self.path / name) as temporary:
            temporary.write_bytes(contents)
        return contents

    def _sweep(self) -> None:
        """Remove the temporary files of a process that was killed while writing."""
        for name in (CONFIG, METRICS, CHECKPOINT, PREVIOUS, "policies/*.safetensors"):
            path = self.path / name
            for left_over in path.parent.glob(f".{path.stem}.????????{path.suffix}"):
                with suppress(OSError):
                    left_over.unlink()


def _link(path: Path, other: Path) -> None:
    """Give a file a second name or, on a disk without such links, a copy."""
    try:
        os.link(path, other)
    except OSError:
        shutil.copyfile(path, other)


def _move(path: Path, to: Path) -> None:
    try:
        os.replace(path, to)
    except OSError as error:
        raise LobsDICEError(f"cannot write {to}: {error.strerror or error}") from error


def _contents(path: Path) -> bytes | None:
    """The contents of a file; None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def fingerprint(data: Data, *, with_ends: bool = True) -> str:
    """The hash of everything in a dataset that training and its policies depend on.

    Without ends it is the hash of earlier versions, for data in which nothing followed an end.
    """
    digest = hashlib.blake2b(digest_size=16)
    normaliser = data.normaliser
    ends = data.ends if with_ends else None
    parts = map(_columns, (data.expert, data.offline, data.labelled))
    rest = (*(ends or ()), normaliser.mean, normaliser.scale)
    for array in chain([data.init], *parts, rest):
        if array is None:
            continue
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    last: list[Any] = [data.action_space.to_json(), data.every if with_ends else False]
    if data.blocks is not None:
        last.append(data.blocks.description())
    digest.update(json.dumps(last).encode())
    return digest.hexdigest()


def _columns(steps: Steps | None) -> Iterator[np.ndarray | None]:
    """Yield s, a and s' of all steps, one at a time because they are copies."""
    if steps is not None:
        yield steps.s
        yield steps.a
        yield steps.s_next


def describe(hyperparameters: Any) -> dict[str, Any]:
    """A dataclass of hyperparameters as plain data, with its name."""
    return {"name": type(hyperparameters).__name__, **asdict(hyperparameters)}
