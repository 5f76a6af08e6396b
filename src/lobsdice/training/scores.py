"""Scores of the logged steps of a fleet: found once before training, and kept in its folder.

Runs that need the same scores of the same data share them. What each run then notes about its rows
depends on its hyperparameters (`Algorithm.notes`).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lobsdice.console import progress, say
from lobsdice.data.files import atomic
from lobsdice.data.prepare import Data
from lobsdice.errors import LobsDICEError
from lobsdice.rewards.kinds import Recorded, Scorer
from lobsdice.rewards.scores import Scores, layout
from lobsdice.training.engine import Member
from lobsdice.training.folder import fingerprint

#: The file of a run folder.
SCORES = "scores.safetensors"
#: The kinds of scores in words, for the progress bar.
TITLES = {"Nearest": "Nearest demonstrated pairs", "Transport": "Optimal transport"}


class Case(NamedTuple):
    """Scores that some runs share."""

    data: int
    """The number of the dataset."""
    kind: Any
    seed: int | None
    """The seed of scores that are learned; None if nothing about them is random."""


#: A function that learns the scores of several cases.
Learn = Callable[[Sequence[Case], Sequence[Data]], list[Scores]]


def case_of(member: Member) -> Case:
    """The scores that a run needs."""
    kind = member.algorithm.scored_by
    return Case(member.data, kind, None if isinstance(kind, Scorer) else member.seed)


def find_scores(
    members: Sequence[Member], datas: Sequence[Data], learn: Learn
) -> dict[Case, Scores]:
    """The scores that the runs need; empty if they need none."""
    if members[0].algorithm.scored_by is None:
        return {}
    cases = list(dict.fromkeys(map(case_of, members)))
    learned = [case for case in cases if case.seed is not None]
    found = dict(zip(learned, learn(learned, datas), strict=True)) if learned else {}
    return {case: found.get(case) or _computed(case, datas[case.data]) for case in cases}


def _computed(case: Case, data: Data) -> Scores:
    if isinstance(case.kind, Recorded):
        return case.kind(data, lambda n: None)
    with progress(TITLES[type(case.kind).__name__], data.offline.size) as advance:
        return case.kind(data, advance)


# ---- Notes ----


class Noted(NamedTuple):
    """The notes of all runs one after the other, and the first one of each run."""

    notes: Any
    start: Int[Array, " runs"]


def noted(
    members: Sequence[Member], datas: Sequence[Data], scores: Mapping[Case, Scores]
) -> Noted | None:
    """The notes of all runs on their rows; None if their algorithm has none."""
    if not scores:
        return None
    keys = [(member.algorithm, case_of(member)) for member in members]
    parts = {key: _notes(*key, datas, scores) for key in dict.fromkeys(keys)}
    sizes = [len(jax.tree.leaves(part)[0]) for part in parts.values()]
    starts = dict(zip(parts, np.cumsum(sizes) - sizes, strict=True))
    notes = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts.values())
    return Noted(notes, jnp.asarray([starts[key] for key in keys], jnp.int32))


def _notes(algorithm: Any, case: Case, datas: Sequence[Data], scores: Mapping[Case, Scores]) -> Any:
    data = datas[case.data]
    found = algorithm.notes(scores[case], layout(data))
    # Rows of ends follow those of steps. Most algorithms have nothing to say about them.
    rows = data.offline.size + (0 if data.ends is None else len(data.ends.offline))
    return jax.tree.map(lambda x: jnp.pad(jnp.asarray(x), (0, rows - len(x))), found)


# ---- The run folder ----


def kept_scores(
    folder: Path, members: Sequence[Member], datas: Sequence[Data], learn: Learn
) -> dict[Case, Scores]:
    """The scores in a run folder; if there are none yet, they are found and written."""
    if members[0].algorithm.scored_by is None:
        return {}
    cases, path = list(dict.fromkeys(map(case_of, members))), folder / SCORES
    key = [_identity(case, datas[case.data]) for case in cases]
    if path.exists() and (kept := read_scores(path)):
        if kept[0] != key:
            raise LobsDICEError(
                f"{path} holds the scores of other data: the rewards or the episodes have changed "
                "since training began, and it cannot be resumed"
            )
        return dict(zip(cases, kept[1], strict=True))
    found = find_scores(members, datas, learn)
    with atomic(path) as temporary:
        temporary.write_bytes(_packed([found[case] for case in cases], key))
    return found


def read_scores(path: Path) -> tuple[list[str], list[Scores]] | None:
    """The data of the scores, and the scores; None, with a warning, if the file is damaged."""
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads((file.metadata() or {})["about"])
            units = about["units"]
            arrays = [
                (file.get_tensor(f"{i}.steps"), file.get_tensor(f"{i}.beyond"))
                for i in range(len(units))
            ]
        found = [Scores(*pair, unit) for pair, unit in zip(arrays, units, strict=True)]
        if about["checksum"] != _checksum(found):
            raise ValueError("its checksum is wrong")
        return about["key"], found
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        say(f"warning: {path} is damaged ({error}); the scores are found again")
        return None


def _packed(scores: Sequence[Scores], key: Sequence[str]) -> bytes:
    tensors = {}
    for i, found in enumerate(scores):
        tensors |= {f"{i}.steps": found.steps, f"{i}.beyond": found.beyond}
    units = [found.unit for found in scores]
    about = {"units": units, "key": list(key), "checksum": _checksum(scores)}
    # One entry, as the format does not keep the order of several.
    return save(tensors, {"about": json.dumps(about)})


def _checksum(scores: Sequence[Scores]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for found in scores:
        digest.update(np.ascontiguousarray(found.steps).data)
        digest.update(np.ascontiguousarray(found.beyond).data)
        digest.update(repr(found.unit).encode())
    return digest.hexdigest()


def _identity(case: Case, data: Data) -> str:
    """The hash of all that scores depend on."""
    digest = hashlib.blake2b(f"{case.kind} {case.seed}".encode(), digest_size=16)
    digest.update(fingerprint(data).encode())
    for array in (data.episode, data.expert_episode, data.ended, data.rewards):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()
