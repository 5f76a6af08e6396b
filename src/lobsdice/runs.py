"""A run's folder: what training writes, and how it goes on after an interruption.

    config.json              everything that determines the run, and the versions it was made with
    metrics.csv              tidy rows: step, run, seed, losses, returns
    checkpoint.safetensors   the state of all runs of the fleet, and the step
    policies/                last-<run>.safetensors, best-<run>.safetensors

Each file is replaced atomically, the checkpoint last, so that whatever moment a run is killed at,
it goes on from its last checkpoint and ends with the same bits.
"""

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from lobsdice.data import Data
from lobsdice.errors import LobsDICEError
from lobsdice.files import atomic
from lobsdice.policy import Policy, load_policy, to_json

Row = dict[str, Any]


@dataclass(frozen=True)
class RunFolder:
    """The folder of one fleet."""

    path: Path

    def begin(self, config: Mapping[str, Any], *, resume: bool) -> None:
        """Write the configuration, or check that the one found there is the same."""
        if (self.path / "config.json").exists():
            if not resume:
                raise LobsDICEError(
                    f"{self.path} already holds a run; resume it, or choose another folder"
                )
            refuse_change(self.path, self.config()["run"], config["run"])
            return
        if resume:
            raise LobsDICEError(f"{self.path} holds no run to resume")
        with atomic(self.path / "config.json") as temporary:
            temporary.write_text(json.dumps(config, indent=2) + "\n")

    def config(self) -> dict[str, Any]:
        """What `begin` wrote."""
        try:
            return json.loads((self.path / "config.json").read_text())
        except FileNotFoundError as error:
            raise LobsDICEError(f"{self.path} holds no run") from error
        except (OSError, ValueError) as error:
            raise LobsDICEError(f"{self.path / 'config.json'} cannot be read: {error}") from error

    def write_rows(self, rows: Sequence[Row]) -> None:
        """Replace metrics.csv; columns stand in the order in which they first appear."""
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with (
            atomic(self.path / "metrics.csv") as temporary,
            temporary.open("w", newline="") as file,
        ):
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)

    def rows(self, *, until: int | None = None) -> list[Row]:
        """The rows of metrics.csv, of steps up to `until`."""
        path = self.path / "metrics.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            rows = [
                {k: _number(v) for k, v in row.items() if v != ""} for row in csv.DictReader(file)
            ]
        return [row for row in rows if until is None or int(row["step"]) <= until]

    def write_checkpoint(self, step: int, state: Any) -> None:
        """Replace the checkpoint."""
        arrays = {name: np.ascontiguousarray(leaf) for name, leaf in named_leaves(state)}
        with atomic(self.path / "checkpoint.safetensors") as temporary:
            save_file(arrays, temporary, metadata={"step": str(step)})

    def read_checkpoint(self, like: Any) -> tuple[int, Any]:
        """The step and the state of the last checkpoint; (0, `like`) where there is none."""
        path = self.path / "checkpoint.safetensors"
        if not path.exists():
            return 0, like
        try:
            with safe_open(path, framework="numpy") as file:
                step = int(file.metadata()["step"])
                leaves = [file.get_tensor(name) for name, _ in named_leaves(like)]
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise LobsDICEError(f"{path} is damaged: {error}") from error
        return step, jax.tree.unflatten(jax.tree.structure(like), map(jax.numpy.asarray, leaves))

    def policy_path(self, which: str, run: int) -> Path:
        return self.path / "policies" / f"{which}-{run}.safetensors"

    def policies(self, which: str = "last") -> list[Policy]:
        """The `last` or `best` policies of all runs, in order."""
        count = len(self.config()["run"]["members"])
        paths = [self.policy_path(which, i) for i in range(count)]
        if not all(path.exists() for path in paths):
            raise LobsDICEError(f"{self.path} holds no {which} policies yet")
        return [load_policy(path) for path in paths]


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree with their places in it, such as `.nets.policy.net.weights[0]`."""
    return [
        (jax.tree_util.keystr(path), x) for path, x in jax.tree_util.tree_leaves_with_path(tree)
    ]


def fingerprint(data: Data) -> str:
    """A short name for everything in a data set that training depends on."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (data.init, *data.expert, *data.offline):
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    digest.update(json.dumps(to_json(data.action_space)).encode())
    return digest.hexdigest()


def describe(hyperparameters: Any) -> dict[str, Any]:
    """A dataclass of hyperparameters as plain data, with its name."""
    return {"name": type(hyperparameters).__name__, **asdict(hyperparameters)}


def refuse_change(path: Path, old: Any, new: Any, where: str = "") -> None:
    """Raise, naming the first difference, unless two configurations are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            refuse_change(path, old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (x, y) in enumerate(zip(old, new, strict=True)):
            refuse_change(path, x, y, f"{where}[{i}]")
    elif old != new:
        raise LobsDICEError(
            f"{path} holds another run, which cannot be resumed as this one: "
            f"{where} was {json.dumps(old)} and is now {json.dumps(new)}"
        )


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
