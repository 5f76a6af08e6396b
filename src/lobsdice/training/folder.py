"""The run folder: the files of a fleet, from which an interrupted training continues.

    config.json              everything that determines the runs, and the versions of packages
    metrics.csv              tidy rows: step, run, seed, returns, losses
    checkpoint.safetensors   the state of all runs, the step, and a hash of the configuration
    policies/                last-<run>.safetensors, best-<run>, selected-<run>

Each file is replaced atomically, the checkpoint last. So a run that is killed at any moment can
continue from its last checkpoint and end with the same bits.
"""

import csv
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lobsdice import __version__
from lobsdice.data.files import atomic, write_csv
from lobsdice.data.prepare import Data
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy, load_policy
from lobsdice.training.loggers import Row
from lobsdice.training.settings import differences, flatten

CONFIG, METRICS, CHECKPOINT = "config.json", "metrics.csv", "checkpoint.safetensors"
#: The key of a checkpoint's metadata that holds everything but the arrays.
FACTS = "lobsdice_checkpoint"


class Checkpoint(NamedTuple):
    """Everything that is needed to continue a fleet."""

    step: int
    state: Any
    failures: dict[int, str]
    """The step and the reason, for each run that has stopped."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one fleet."""

    path: Path

    def begin(self, run: Mapping[str, Any], about: Mapping[str, Any], *, resume: bool) -> None:
        """Write config.json, or with `resume` check that the folder holds the same runs."""
        if not resume:
            self.refuse_existing()
            config = {"run": run, "made_with": made_with(), "about": about}
            with atomic(self.path / CONFIG) as temporary:
                temporary.write_text(json.dumps(config, indent=2) + "\n")
            return
        config = self.config()
        refuse_change(self.path, config["run"], json.loads(json.dumps(run)))
        _warn_of_change(config["made_with"], made_with())
        self._sweep()

    def refuse_existing(self) -> None:
        """Raise if the folder already holds runs."""
        if self.path.exists() and not self.path.is_dir():
            raise LobsDICEError(f"{self.path} is a file, but runs need a folder")
        if any((self.path / name).exists() for name in (CONFIG, CHECKPOINT)):
            raise LobsDICEError(
                f"{self.path} already holds a run; resume it, or choose another folder"
            )

    def config(self) -> dict[str, Any]:
        """The contents of config.json."""
        path = self.path / CONFIG
        try:
            config = json.loads(path.read_text())
            if set(config) != {"run", "made_with", "about"}:
                raise ValueError("it has other keys than lobsdice writes")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LobsDICEError(f"{self.path} is not a run folder") from error
        except (OSError, ValueError, TypeError) as error:
            raise LobsDICEError(f"{path} cannot be read: {error}") from error
        return config

    def write_rows(self, rows: Sequence[Row]) -> None:
        """Replace metrics.csv."""
        write_csv(self.path / METRICS, rows, line_end="\r\n")

    def rows(self, *, until: int | None = None) -> list[Row]:
        """The rows of metrics.csv; with `until`, only those up to that step."""
        rows = read_rows(self.path / METRICS)
        if not all(isinstance(row.get("run"), int) for row in rows):
            raise LobsDICEError(f"{self.path / METRICS} is damaged: some rows have no run")
        return [row for row in rows if until is None or row["step"] <= until]

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        step, state, failures = checkpoint
        arrays = {name: np.ascontiguousarray(leaf) for name, leaf in named_leaves(state)}
        facts = {"step": step, "failures": failures, "config": self._digest()}
        metadata = {FACTS: json.dumps(facts)}
        with atomic(self.path / CHECKPOINT) as temporary:
            temporary.write_bytes(save(arrays, metadata=metadata))

    def read_checkpoint(self, like: Any) -> Checkpoint | None:
        """The last checkpoint, or None; its state has the structure of `like`."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        names = [name for name, _ in named_leaves(like)]
        with _opened(path) as (file, facts):
            if not set(names) <= set(file.keys()):
                raise LobsDICEError(f"{path} holds other networks than this version of lobsdice")
            leaves = [file.get_tensor(name) for name in names]
        fits = [x.shape for x in leaves] == [x.shape for x in jax.tree.leaves(like)]
        if not fits or facts["config"] != self._digest():
            raise LobsDICEError(f"{path} does not belong to the run of {self.path / CONFIG}")
        state = jax.tree.unflatten(jax.tree.structure(like), map(jax.numpy.asarray, leaves))
        return Checkpoint(facts["step"], state, facts["failures"])

    def failures(self) -> dict[int, str]:
        """The step and the reason, for each run that had stopped at the last checkpoint."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return {}
        with _opened(path) as (_, facts):
            return facts["failures"]

    def policy_path(self, which: str, run: int) -> Path:
        """The file of a run's `last`, `best` or `selected` policy."""
        return self.path / "policies" / f"{which}-{run}.safetensors"

    def policies(self, which: str = "last") -> dict[int, Policy]:
        """The `last`, `best` or `selected` policy of each run; runs that failed early have none."""
        paths = {i: self.policy_path(which, i) for i in range(len(self.config()["run"]["runs"]))}
        found = {i: load_policy(path) for i, path in paths.items() if path.exists()}
        if not found:
            raise LobsDICEError(f"{self.path} holds no {which} policies (yet)")
        return found

    def _digest(self) -> str:
        """The hash of the configuration, which includes the data's."""
        text = json.dumps(self.config()["run"], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _sweep(self) -> None:
        """Remove the temporary files of a process that was killed while writing."""
        for name in (CONFIG, METRICS, CHECKPOINT, "policies/*.safetensors"):
            path = self.path / name
            for left_over in path.parent.glob(f".{path.stem}.????????{path.suffix}"):
                left_over.unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """An open checkpoint file, and its contents other than arrays."""
    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            failures = {int(run): why for run, why in facts["failures"].items()}
            yield file, facts | {"failures": failures}
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise LobsDICEError(f"{path} is damaged: {error}") from error


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file with a column `step`, without empty cells; no rows if no file."""
    if not path.exists():
        return []
    try:
        with path.open(newline="") as file:
            lines = list(csv.DictReader(file))
    except (csv.Error, UnicodeError) as error:
        raise LobsDICEError(f"{path} is damaged: {error}") from error
    # csv uses None as the key of surplus cells, and as the value of missing ones.
    if any(None in (*line, *line.values()) for line in lines):
        raise LobsDICEError(f"{path} is damaged: some rows are longer or shorter than its header")
    rows: list[Row] = [{k: _number(v) for k, v in line.items() if v != ""} for line in lines]
    if not all(isinstance(row.get("step"), int) for row in rows):
        raise LobsDICEError(f"{path} is damaged: some rows have no step")
    return rows


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree with their paths, such as `.nets.policy.net.weights[0]`."""
    return [
        (jax.tree_util.keystr(path), x) for path, x in jax.tree_util.tree_leaves_with_path(tree)
    ]


def fingerprint(data: Data, *, with_ends: bool = True) -> str:
    """The hash of everything in a dataset that training and its policies depend on.

    Without ends it is the hash of earlier versions, for data in which nothing followed an end.
    """
    digest = hashlib.blake2b(digest_size=16)
    normaliser = data.normaliser
    ends = data.ends if with_ends else None
    parts = (data.init, *data.expert, *data.offline, *(data.labelled or ()), *(ends or ()))
    for array in (*parts, normaliser.mean, normaliser.scale):
        if array is None:
            continue
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    last = data.every if with_ends else False
    digest.update(json.dumps([data.action_space.to_json(), last]).encode())
    return digest.hexdigest()


def describe(hyperparameters: Any) -> dict[str, Any]:
    """A dataclass of hyperparameters as plain data, with its name."""
    return {"name": type(hyperparameters).__name__, **asdict(hyperparameters)}


def made_with() -> dict[str, str]:
    """The versions and the device, on which the last bits of results depend."""
    return {
        "lobsdice": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "device": jax.devices()[0].device_kind,
    }


def refuse_change(path: Path, old: Any, new: Any) -> None:
    """Raise if two configurations differ; the error names the first difference."""
    if new_options := _option_names(new) - _option_names(old):
        raise LobsDICEError(
            f"{path} was trained by an earlier version of lobsdice, without the option "
            f"{', '.join(sorted(new_options))}; this version cannot resume it"
        )
    changes = differences([flatten(old), flatten(new)])
    if not changes:
        return
    name, (before, now) = next(iter(changes.items()))
    change = f"{name}: {json.dumps(before)} before, {json.dumps(now)} now"
    change = "the data has changed" if name.endswith("fingerprint") else change
    raise LobsDICEError(f"{path} holds another run, which cannot be resumed as this one: {change}")


def _option_names(run: Mapping[str, Any]) -> set[str]:
    return set(run["runs"][0].get("options", {}))


def _warn_of_change(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    changes = [f"{k} {old.get(k)} before, {new[k]} now" for k in new if old.get(k) != new[k]]
    if changes:
        warnings.warn(
            f"the last bits may differ from those of an uninterrupted run: {'; '.join(changes)}",
            UserWarning,
            stacklevel=2,
        )


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
