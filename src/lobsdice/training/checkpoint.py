"""The file of a checkpoint: the state of a fleet, copies of other files, and checksums of both."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lobsdice.data.checksums import check_array, check_facts, with_checksums
from lobsdice.errors import LobsDICEError
from lobsdice.training.settings import misfit

METRICS = "metrics.csv"
#: The key of a checkpoint's metadata that holds everything but the arrays.
FACTS = "lobsdice_checkpoint"
#: The beginning of the names of arrays that are copies of files.
FILE = "file "
#: The files that a checkpoint has copies of.
COPIED = re.compile(rf"{METRICS}|policies/(last|best|selected)-\d+\.safetensors")


class DamagedError(LobsDICEError):
    """A checkpoint that cannot be used."""


class Checkpoint(NamedTuple):
    """Everything that is needed to continue a fleet."""

    step: int
    state: Any
    failures: dict[int, str]
    """The step and the reason, for each run that has stopped."""
    files: Mapping[str, bytes] = {}
    """The contents of metrics.csv and of the policies at this step, by their paths."""


def packed(checkpoint: Checkpoint, config: str) -> bytes:
    """The contents of the file of a checkpoint; `config` is the hash of its configuration."""
    step, state, failures, files = checkpoint
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in named_leaves(state)}
    arrays |= {FILE + name: np.frombuffer(x, np.uint8) for name, x in files.items()}
    told = {str(run): why for run, why in failures.items()}
    facts = with_checksums({"step": step, "failures": told, "config": config}, arrays)
    return save(arrays, metadata={FACTS: json.dumps(facts)})


@dataclass(frozen=True)
class Opened:
    """An open checkpoint. What is read from it is checked first."""

    handle: Any
    names: set[str]
    sums: Mapping[str, str] | None
    """The checksums of the arrays; None if an earlier version wrote the checkpoint."""
    step: int
    config: str
    failures: dict[int, str]

    def array(self, name: str) -> np.ndarray:
        array = self.handle.get_tensor(name)
        if self.sums is not None:
            check_array(self.sums, name, array)
        return array

    def files(self) -> list[str]:
        """The paths of the files that the checkpoint has copies of."""
        return [name.removeprefix(FILE) for name in sorted(self.names) if name.startswith(FILE)]

    def file(self, path: str) -> bytes:
        # Someone else's checkpoint must not write anywhere else.
        if not COPIED.fullmatch(path):
            raise ValueError(f"it has a file {path!r}, which lobsdice does not write")
        return self.array(FILE + path).tobytes()


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """An open checkpoint; an error in the block tells that it is damaged."""
    try:
        with safe_open(path, framework="numpy") as handle:
            facts = json.loads((handle.metadata() or {})[FACTS])
            names, sums = set(handle.keys()), check_facts(facts)
            if sums is not None and names != set(sums):
                raise ValueError("it has other arrays than checksums")
            if found := misfit(facts, {"step": int, "config": str, "failures": dict}):
                raise ValueError(found)
            failures = {int(run): str(why) for run, why in facts["failures"].items()}
            yield Opened(handle, names, sums, facts["step"], facts["config"], failures)
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError, OSError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree with their paths, such as `.nets.policy.net.weights[0]`."""
    return [
        (jax.tree_util.keystr(path), x) for path, x in jax.tree_util.tree_leaves_with_path(tree)
    ]
