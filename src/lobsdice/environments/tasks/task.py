"""Built-in tasks: an environment, state-only demonstrations and offline data.

Episodes are collected once and kept in `cache_folder()/tasks`. The name of their folder contains a
digest of everything that they depend on. Episode i of a source does not depend on the number of
episodes, so a request for more only adds to the files.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lobsdice.data.episodes import Episodes, concatenate, mixture
from lobsdice.data.files import cache_folder
from lobsdice.data.formats import read, write
from lobsdice.data.prepare import Data, prepare
from lobsdice.environments.evaluate import summaries
from lobsdice.environments.gym import versions
from lobsdice.environments.tasks.behaviour import files_of
from lobsdice.environments.tasks.collect import check_counts, collect_ranges
from lobsdice.environments.tasks.table import Spec, spec_of
from lobsdice.errors import DataWarning, LobsDICEError
from lobsdice.policies.policy import Policy

#: Increased by one whenever rollouts or seeds change.
COLLECTION_VERSION = 1


@dataclass(frozen=True, eq=False)
class Task:
    """A built-in task with its data."""

    name: str
    expert: Episodes
    """The demonstrations, without actions."""
    offline: Episodes
    """Offline episodes with actions, labelled with their source. None is a demonstration."""
    labelled: Episodes
    """The demonstrations with their actions, for the algorithms that need them."""
    spec: Spec

    @cached_property
    def data(self) -> Data:
        """The data of a learner, prepared with the default options."""
        return self._prepared()

    @cached_property
    def labelled_data(self) -> Data:
        """The same with the demonstrations' actions, for the algorithms that need them."""
        return self._prepared(labelled=self.labelled)

    def _prepared(self, **options: Any) -> Data:
        # Where there are few states, demonstrations and logs share pairs of states by chance. No
        # episode is in both, so that is no leak.
        return prepare(self.expert, self.offline, allow_leak=self.spec.finite, **options)

    def evaluate(self, policies: Sequence[Policy], **options: Any) -> list[dict[str, float]]:
        """The mean return and score of each policy; `options` are those of `evaluate`."""
        return summaries(policies, self.name, **options)

    def normalised(self, returns):
        """100 (return − random) / (expert − random), for a return or an array of them."""
        return self.spec.normalised(returns)


def load(
    name: str,
    *,
    expert: int = 5,
    offline: Mapping[str, int] | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> Task:
    """Load a built-in task. The first time its episodes are collected, which takes about a minute.

    The demonstrations are the first `expert` episodes of the expert. The offline data has the
    episodes after them: `offline` gives the number of each source, by default the task's own.
    """
    spec = spec_of(name)
    offline = spec.offline if offline is None else offline
    check_counts(spec, {"expert": expert, **offline})
    offline = {source: n for source, n in offline.items() if n}
    if not expert or not offline:
        raise LobsDICEError("a task needs at least one demonstration and one offline episode")
    episodes = cached(spec, needed(expert, offline), seed=seed, workers=workers)
    demonstrations, rest = divide(episodes, expert, offline)
    return Task(
        name=name,
        expert=demonstrations.without_actions(),
        offline=rest,
        labelled=demonstrations,
        spec=spec,
    )


def needed(expert: int, offline: Mapping[str, int]) -> dict[str, int]:
    """The number of episodes of each source that `divide` needs."""
    return {"expert": expert} | {s: n + _skipped(s, expert) for s, n in offline.items()}


def divide(
    episodes: Mapping[str, Episodes], expert: int, offline: Mapping[str, int]
) -> tuple[Episodes, Episodes]:
    """The demonstrations (the first episodes of the expert), and offline data without them."""
    rest = {s: episodes[s].first(n, skip=_skipped(s, expert)) for s, n in offline.items()}
    return episodes["expert"].first(expert), mixture(rest)


def _skipped(source: str, expert: int) -> int:
    return expert if source == "expert" else 0


def cached(
    spec: Spec, counts: Mapping[str, int], *, seed: int, workers: int | None = None
) -> dict[str, Episodes]:
    """At least the first `counts[source]` episodes of each source. Missing ones are collected."""
    folder = _folder(spec, seed)
    kept = {source: _read(folder / f"{source}.npz") for source in counts}
    missing = {
        source: range(sum(map(len, kept[source])), count) for source, count in counts.items()
    }
    missing = {source: numbers for source, numbers in missing.items() if numbers}
    new = collect_ranges(spec.name, missing, seed=seed, workers=workers) if missing else {}
    episodes = {s: concatenate([*kept[s], *([new[s]] if s in new else [])]) for s in counts}
    _keep(folder, {source: episodes[source] for source in new})
    return episodes


def cached_files(spec: Spec, *, seed: int) -> list[Path]:
    """The files of the episodes that were collected so far."""
    return sorted(_folder(spec, seed).glob("*.npz"))


def _folder(spec: Spec, seed: int) -> Path:
    return cache_folder() / "tasks" / f"{spec.name}-{fingerprint(spec, seed)}"


def _keep(folder: Path, episodes: Mapping[str, Episodes]) -> None:
    """Write the episodes of each source to the cache; warn if it cannot be written."""
    try:
        for source, collected in episodes.items():
            write(folder / f"{source}.npz", collected)
    except LobsDICEError as error:
        warnings.warn(
            f"the episodes are not kept for another time: {error}; $LOBSDICE_CACHE names a folder "
            "for them",
            stacklevel=2,
        )


def fingerprint(spec: Spec, seed: int) -> str:
    """A digest of everything that the episodes of a task depend on."""
    facts = {
        "spec": asdict(spec),
        "seed": seed,
        "versions": versions(spec),
        "as": COLLECTION_VERSION,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in files_of(spec):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _read(path: Path) -> list[Episodes]:
    """The episodes in a file, as a list of one; empty if the file is missing or damaged."""
    with warnings.catch_warnings():
        # Where there are few states, short episodes are alike by chance.
        warnings.filterwarnings("ignore", ".* repeat", DataWarning)
        try:
            return [read(path)] if path.exists() else []
        except LobsDICEError:
            return []
