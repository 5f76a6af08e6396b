"""The files of a rehearsal in a run folder.

world.safetensors        the learned world
rehearsal.json           the verdict on each rehearsed policy, and the quality of the world
rehearsal.safetensors    some rehearsed episodes of each policy, for the report
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.environments.learned import WORLD, LearnedWorld, load_world
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import policy_name
from lobsdice.training.rehearsal.comparison import Comparison
from lobsdice.training.rehearsal.verdict import Verdict
from lobsdice.training.settings import misfit

VERDICTS, ROLLOUTS = "rehearsal.json", "rehearsal.safetensors"
#: Rehearsed episodes of each policy that are kept, and steps of each at most.
KEPT, LONGEST = 12, 500
#: The parts of rehearsal.json that are read again.
SHAPE = {
    "recordings": str,
    "world": dict,
    "policies": [{"policy": str, "digest": str, "works": bool, "ending": bool, "score": float}],
}


@dataclass(frozen=True)
class Kept:
    """A rehearsed policy in a run folder."""

    policy: str
    """The path of its file within the folder."""
    digest: str
    """A hash of that file: another policy needs a new rehearsal."""
    verdict: Verdict
    comparison: Comparison | None = None
    """Its episodes beside the demonstrations; None if the verdict was read from the folder."""


def digest_of(path: Path) -> str:
    """The hash of a file."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def recordings_digest(expert: Episodes, offline: Episodes) -> str:
    """The hash of demonstrations and logs, whatever was made of them."""
    digest = hashlib.blake2b(digest_size=16)
    parts = [expert.observations, expert.lengths, expert.terminated]
    parts += [offline.observations, offline.lengths, offline.terminated, offline.actions]
    for part in parts:
        array = np.ascontiguousarray(part)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def changed(folder: Path, policy: Mapping[str, Any]) -> bool:
    """True if a rehearsed policy is no longer in the folder, or is another one now."""
    path = folder / policy["policy"]
    # Somebody else's report may name any file of this machine, or a pipe.
    own = (
        path.is_file()
        and path.resolve().parent == (folder / policy_name("last", 0)).resolve().parent
    )
    return not own or digest_of(path) != policy["digest"]


def keep(folder: Path, world: LearnedWorld, recordings: str, found: Sequence[Kept]) -> None:
    """Write a rehearsal to a run folder."""
    world.save(folder / WORLD)
    with atomic(folder / ROLLOUTS) as temporary:
        temporary.write_bytes(save(_arrays(found)))
    policies = [
        {"policy": one.policy, "digest": one.digest, **one.verdict.to_plain()} for one in found
    ]
    report = {"recordings": recordings, "world": world.about, "policies": policies}
    with atomic(folder / VERDICTS) as temporary:
        temporary.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _arrays(found: Sequence[Kept]) -> dict[str, np.ndarray]:
    """The first episodes of each policy: states in the user's units, lengths, and what is near."""
    arrays = {}
    for one in found:
        comparison = one.comparison
        assert comparison is not None
        rollouts, world = comparison.rollouts, comparison.shown.world
        some = np.linspace(0, len(rollouts.steps) - 1, min(KEPT, len(rollouts.steps))).astype(int)
        # The last kept state of a longer episode is not where it stopped.
        whole = rollouts.steps[some] <= LONGEST
        arrays |= {
            f"{one.policy}/states": world.raw(rollouts.states[some, : LONGEST + 1]),
            f"{one.policy}/steps": np.minimum(rollouts.steps[some], LONGEST),
            f"{one.policy}/near": comparison.near[some, :LONGEST],
            f"{one.policy}/guessing": rollouts.guessing[some] & whole,
            f"{one.policy}/failed": comparison.failed[some] & whole,
        }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def kept_world(folder: Path, recordings: str) -> LearnedWorld | None:
    """The world that a folder keeps, if it was learned from these recordings."""
    path = folder / WORLD
    if not path.exists():
        return None
    try:
        world = load_world(path)
    except LobsDICEError:  # it is damaged, and is learned again
        return None
    return world if world.about.get("recordings") == recordings else None


def kept_report(folder: Path) -> dict[str, Any] | None:
    """The contents of rehearsal.json; None if there is none."""
    path = folder / VERDICTS
    if not path.exists():
        return None
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if wrong := misfit(report, SHAPE):
            raise ValueError(wrong)
    except (OSError, ValueError, RecursionError) as error:
        raise LobsDICEError(
            f"{path} cannot be read: {error}; `lobsdice rehearse {folder}` writes it again"
        ) from error
    return report


def kept_verdicts(folder: Path, report: Mapping[str, Any]) -> list[Kept]:
    """The verdicts of a folder's report; none if an earlier version wrote it, or it is damaged."""
    hints = get_type_hints(Verdict)
    policies = report["policies"]
    if misfit(policies, [hints]) or any(x["starts"] < 1 or x["shared_ends"] <= 0 for x in policies):
        return []
    return [
        Kept(one["policy"], one["digest"], Verdict(**{name: one[name] for name in hints}))
        for one in policies
        if not changed(folder, one)
    ]


def kept_rollouts(folder: Path, policy: str) -> Mapping[str, np.ndarray]:
    """The kept episodes of a policy: states, steps, near, guessing and failed."""
    path = folder / ROLLOUTS
    try:
        arrays = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise LobsDICEError(
            f"{path} cannot be read; `lobsdice rehearse {folder}` writes it again"
        ) from error
    names = ("states", "steps", "near", "guessing", "failed")
    if any(f"{policy}/{name}" not in arrays for name in names):
        raise LobsDICEError(f"{path} has no rehearsal of {policy}")
    return {name: arrays[f"{policy}/{name}"] for name in names}
