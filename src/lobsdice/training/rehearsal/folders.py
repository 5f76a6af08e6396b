"""Rehearse the policies of run folders, and keep what was found in each folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import prepare
from lobsdice.environments.learned import LearnedWorld
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import load_policy, policy_name
from lobsdice.training.folder import RunFolder
from lobsdice.training.recipe import Recipe, read_recipe
from lobsdice.training.rehearsal.dynamics import STEPS, learn_world
from lobsdice.training.rehearsal.files import (
    Kept,
    digest_of,
    keep,
    kept_report,
    kept_verdicts,
    kept_world,
    recordings_digest,
)
from lobsdice.training.rehearsal.rehearse import rehearse_policies
from lobsdice.training.rehearsal.rollouts import EPISODES, horizon_of
from lobsdice.training.settings import misfit

#: The errors of a learned world that are read again.
QUALITY = {"unexplained": float, "in_interval": float, "expected_ends": float}
#: The policies of a run that compete, and the keys of their files.
WHICH = ("last", "selected")


@dataclass(frozen=True, eq=False)
class Recorded:
    """The recordings that several run folders share."""

    expert: Episodes
    offline: Episodes
    digest: str

    def learn(self, steps: int = STEPS) -> LearnedWorld:
        """Learn the world of the logs."""
        # No pair is used for learning that a leak could spoil.
        data = prepare(self.expert, self.offline, allow_leak=True)
        world = learn_world(data, steps=steps)
        facts = {"recordings": self.digest, "steps": steps, "horizon": horizon_of(self.expert)}
        facts |= {"succeeded": succeeded(self.offline)}
        return replace(world, about=world.about | facts)


def succeeded(episodes: Episodes) -> float | None:
    """The share of successes among the episodes whose outcome is known; None if none is."""
    known = None if episodes.success is None else episodes.success[episodes.success >= 0]
    return float(known.mean()) if known is not None and len(known) else None


def recorded(folders: Sequence[Path]) -> Recorded:
    """Read the recordings of run folders; raise if they are not all the same."""
    if not folders:
        raise LobsDICEError("there is nothing to rehearse: name one or more run folders")
    read: dict[tuple, Recorded] = {}
    found: dict[Path, Recorded] = {}
    for folder in folders:
        recipe = read_recipe(folder)
        key = _source(recipe)
        if key not in read:
            expert, offline, _ = recipe.in_memory(recipe.recordings())
            read[key] = Recorded(expert, offline, recordings_digest(expert, offline))
        found[folder] = read[key]
    first = found[folders[0]]
    for folder, one in found.items():
        if one.digest != first.digest:
            raise LobsDICEError(
                f"{folders[0]} and {folder} cannot be compared, because they learned from "
                "different recordings"
            )
    return first


def _source(recipe: Recipe) -> tuple:
    """The settings that the recordings of a recipe, as far as they are in memory, depend on."""
    files = (recipe.expert, recipe.offline, recipe.read)
    pool = recipe.preparation.pool
    return (*files, recipe.task, recipe.demonstrations, recipe.mixture, pool is None)


class Outcome(NamedTuple):
    """The rehearsal of the policies of some folders."""

    world: Mapping[str, Any]
    """Facts about the learned world, such as its held-out errors."""
    ranked: list[tuple[Path, Kept]]
    """The policies, each with its folder: those that work first, and the best first."""


def rehearse_folders(
    folders: Sequence[str | Path],
    *,
    steps: int | None = None,
    episodes: int = EPISODES,
    horizon: int | None = None,
    again: bool = False,
) -> Outcome:
    """Rehearse the last and the selected policy of each run of some folders.

    All must have learned from the same recordings. The world is learned from the logs once, and
    each folder keeps a copy. With `again` it is learned anew. `steps` are those of learning it;
    without a number, any world that a folder keeps will do.
    """
    paths = [Path(folder) for folder in folders]
    files = {path: policy_files(path) for path in paths}  # a folder without any is an error at once
    recordings = recorded(paths)
    worlds = () if again else (kept_world(path, recordings.digest) for path in paths)
    world = next(
        (found for found in worlds if found and steps in (None, found.about["steps"])), None
    )
    world = world or recordings.learn(steps or STEPS)
    kept = _rehearse(files, world, recordings.expert, episodes=episodes, horizon=horizon)
    for path, ones in kept.items():
        keep(path, world, recordings.digest, ones)
    return Outcome(world.about, _ranked(kept))


def _rehearse(
    files: Mapping[Path, Sequence[str]], world: LearnedWorld, expert: Episodes, **options: Any
) -> dict[Path, list[Kept]]:
    """Rehearse the policies of each folder in a world."""
    names = [(path, name) for path, found in files.items() for name in found]
    policies = [load_policy(path / name) for path, name in names]
    kept: dict[Path, list[Kept]] = {}
    found = rehearse_policies(world, policies, expert, **options)
    for (path, name), (verdict, comparison) in zip(names, found, strict=True):
        one = Kept(name, digest_of(path / name), verdict, comparison)
        kept.setdefault(path, []).append(one)
    return kept


def known_outcome(folders: Sequence[str | Path], *, steps: int | None = None) -> Outcome | None:
    """The rehearsal that the folders keep, if it is of all their policies and of one world.

    Otherwise the policies must be rehearsed: some are new, or were rehearsed in another way.
    """
    paths = [Path(folder) for folder in folders]
    reports = {path: kept_report(path) for path in paths}
    if any(report is None for report in reports.values()) or not paths:
        return None
    known = {path: report for path, report in reports.items() if report is not None}
    worlds, recordings = ([one[key] for one in known.values()] for key in ("world", "recordings"))
    kept = {path: kept_verdicts(path, report) for path, report in known.items()}
    ways = {(one.verdict.starts, one.verdict.horizon) for ones in kept.values() for one in ones}
    complete = all({one.policy for one in kept[path]} == set(policy_files(path)) for path in paths)
    alike = len(ways) == 1 and worlds.count(worlds[0]) == len(worlds)
    quality = worlds[0].get("quality")
    known_quality = isinstance(quality, dict) and not misfit(
        {"expected_ends": 0.0} | quality, QUALITY
    )
    fits = steps in (None, worlds[0].get("steps")) and known_quality
    if not (complete and alike and fits and recorded(paths).digest == recordings[0]):
        return None
    return Outcome(worlds[0], _ranked(kept))


def _ranked(kept: Mapping[Path, Sequence[Kept]]) -> list[tuple[Path, Kept]]:
    found = [(path, one) for path, ones in kept.items() for one in ones]
    return sorted(found, key=lambda pair: pair[1].verdict.rank, reverse=True)


def policy_files(path: Path) -> list[str]:
    """The paths of a folder's policies that compete; equal ones count once."""
    runs = range(len(RunFolder(path).config()["run"]["runs"]))
    names = [policy_name(which, run) for run in runs for which in WHICH]
    found: Mapping[tuple, str] = {}
    for name in names:
        if (path / name).exists():
            run = name.rpartition("-")[2]
            found.setdefault((run, digest_of(path / name)), name)  # pyright: ignore
    if not found:
        raise LobsDICEError(f"{path} holds no policies yet")
    return list(found.values())
