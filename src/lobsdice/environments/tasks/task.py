"""Tasks as the experiments use them: state-only demonstrations, and labelled offline data.

Episodes are collected once and kept in `cache_folder()/tasks`, in a folder whose name changes with
everything that the episodes depend on. Episode i of a source is the same however many are asked
for, so asking for more only adds to the files.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lobsdice.data.episodes import Episodes, concatenate, mixture
from lobsdice.data.files import cache_folder
from lobsdice.environments.gym import versions
from lobsdice.environments.tasks.behaviour import policy_file
from lobsdice.environments.tasks.collect import check_counts, collect_ranges
from lobsdice.environments.tasks.table import Spec, spec_of
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.data.prepare import Data
    from lobsdice.policies.policy import Policy

#: Raised by one whenever the way in which episodes are rolled out or seeded changes.
COLLECTION_VERSION = 1

OFFLINE: Mapping[str, int] = MappingProxyType({"expert": 100, "medium": 500, "random": 500})


@dataclass(frozen=True, eq=False)
class Task:
    """A built-in task with its data."""

    name: str
    expert: Episodes
    """Demonstrations, without actions."""
    offline: Episodes
    """Episodes with actions, each labelled with its source; none is among the demonstrations."""
    labelled: Episodes
    """The demonstrations with their actions, for the algorithms that need them."""
    spec: Spec

    @cached_property
    def data(self) -> "Data":
        """What a learner sees of both, with the default options."""
        from lobsdice.data.prepare import prepare

        return prepare(self.expert, self.offline)

    @cached_property
    def labelled_data(self) -> "Data":
        """The same with the demonstrations' actions, for the algorithms that need them."""
        from lobsdice.data.prepare import prepare

        return prepare(self.expert, self.offline, labelled=self.labelled)

    def evaluate(self, policies: "Sequence[Policy]", **options: Any) -> list[dict[str, float]]:
        """The mean return and normalised score of each policy; `options` are `evaluate`'s."""
        from lobsdice.environments.evaluate import summaries

        return summaries(policies, self.name, **options)

    def normalised(self, returns):
        """100 (return − random) / (expert − random), for a return or an array of them."""
        return self.spec.normalised(returns)


def load(
    name: str,
    *,
    expert: int = 5,
    offline: Mapping[str, int] = OFFLINE,
    seed: int = 0,
    workers: int | None = None,
) -> Task:
    """A built-in task; its episodes are collected the first time, which takes a minute or so.

    Demonstrations are the first `expert` episodes of the expert; the offline data takes the ones
    after them.
    """
    spec = spec_of(name)
    check_counts({"expert": expert, **offline})
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
    """How many episodes of each source `divide` takes."""
    return {"expert": expert} | {s: n + _skipped(s, expert) for s, n in offline.items()}


def divide(
    episodes: Mapping[str, Episodes], expert: int, offline: Mapping[str, int]
) -> tuple[Episodes, Episodes]:
    """Demonstrations, and offline data that has none of them: the first and the next episodes."""
    rest = {s: episodes[s].first(n, skip=_skipped(s, expert)) for s, n in offline.items()}
    return episodes["expert"].first(expert), mixture(rest)


def _skipped(source: str, expert: int) -> int:
    return expert if source == "expert" else 0


def cached(
    spec: Spec, counts: Mapping[str, int], *, seed: int, workers: int | None = None
) -> dict[str, Episodes]:
    """At least the first `counts[source]` episodes of each source; those not kept are collected."""
    from lobsdice.data.formats import write

    folder = cache_folder() / "tasks" / f"{spec.name}-{fingerprint(spec, seed)}"
    kept = {source: _read(folder / f"{source}.npz") for source in counts}
    missing = {
        source: range(sum(map(len, kept[source])), count) for source, count in counts.items()
    }
    missing = {source: numbers for source, numbers in missing.items() if numbers}
    new = collect_ranges(spec.name, missing, seed=seed, workers=workers) if missing else {}
    episodes = {s: concatenate([*kept[s], *([new[s]] if s in new else [])]) for s in counts}
    for source in new:
        write(folder / f"{source}.npz", episodes[source])
    return episodes


def fingerprint(spec: Spec, seed: int) -> str:
    """A short name for everything that the episodes of a task depend on."""
    facts = {"spec": asdict(spec), "seed": seed, "versions": versions(), "as": COLLECTION_VERSION}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for source in sorted(spec.noise):
        digest.update(policy_file(spec, source).read_bytes())
    return digest.hexdigest()[:16]


def _read(path: Path) -> list[Episodes]:
    """The one set of episodes in a file, or none where there is no file or a damaged one."""
    from lobsdice.data.formats import read

    try:
        return [read(path)] if path.exists() else []
    except LobsDICEError:
        return []
