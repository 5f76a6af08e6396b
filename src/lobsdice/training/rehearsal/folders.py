"""Rehearse the policies of run folders, and keep what was found in each folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
    kept_world,
    recordings_digest,
)
from lobsdice.training.rehearsal.rehearse import rehearse_policies
from lobsdice.training.rehearsal.rollouts import EPISODES, horizon_of

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
        return replace(world, about=world.about | facts)


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
            expert, offline, _ = recipe.recordings()
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
    """The settings that the recordings of a recipe depend on."""
    files = (recipe.expert, recipe.offline, recipe.read)
    return (*files, recipe.task, recipe.demonstrations, recipe.mixture)


def rehearse_folders(
    folders: Sequence[str | Path],
    *,
    steps: int | None = None,
    episodes: int = EPISODES,
    horizon: int | None = None,
    again: bool = False,
) -> dict[Path, list[Kept]]:
    """Rehearse the last and the selected policy of each run of some folders.

    All must have learned from the same recordings. The world is learned from the logs once, and
    each folder keeps a copy. With `again` it is learned anew. `steps` are those of learning it;
    without a number, any world that a folder keeps will do.
    """
    paths = [Path(folder) for folder in folders]
    recordings = recorded(paths)
    worlds = () if again else (kept_world(path, recordings.digest) for path in paths)
    world = next(
        (found for found in worlds if found and steps in (None, found.about["steps"])), None
    )
    world = world or recordings.learn(steps or STEPS)
    files = {path: policy_files(path) for path in paths}
    policies = [load_policy(path / name) for path, names in files.items() for name in names]
    found = iter(
        rehearse_policies(world, policies, recordings.expert, episodes=episodes, horizon=horizon)
    )
    kept = {
        path: [Kept(name, digest_of(path / name), next(found)) for name in names]
        for path, names in files.items()
    }
    for path, ones in kept.items():
        keep(path, world, recordings.digest, ones)
    return kept


def ranked(kept: Mapping[Path, Sequence[Kept]]) -> list[tuple[Path, Kept]]:
    """The rehearsed policies of all folders: those that work first, and the best first."""
    found = [(path, one) for path, ones in kept.items() for one in ones]
    return sorted(found, key=lambda pair: pair[1].rehearsed.verdict.rank, reverse=True)


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
