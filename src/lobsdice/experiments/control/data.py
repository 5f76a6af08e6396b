"""The data of each trial: every seed has demonstrations and logs of its own, drawn from a pool.

The pool of a source is its first episodes, `POOL` times as many as a trial takes from it. So two
seeds share half of their logs on average. That is the price of collecting in minutes what five
seeds need. No two seeds share a demonstration, if there are enough, and no demonstration of a seed
is in its own logs. The draw depends on the trial's own numbers alone, so the parts of a table can
be run one by one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Int64

from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.prepare import Data, Initial, prepare
from lobsdice.data.rows import offsets, ranges
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control.grid import Trial

#: The pool has this many times the logged episodes of a trial.
POOL = 2
EXPERT = "expert"

Numbers = Int64[np.ndarray, " _"]


def wanted(trials: Iterable[Trial]) -> dict[str, dict[str, int]]:
    """For each environment, the number of episodes of each source that the trials need."""
    counts: dict[str, Counter[str]] = {}
    for trial in trials:
        # The union has the larger count of each.
        counts[trial.environment] = counts.get(trial.environment, Counter()) | Counter(_pool(trial))
    return {environment: dict(found) for environment, found in counts.items()}


def make_data(
    trial: Trial,
    episodes: Mapping[str, Episodes],
    *,
    labels: bool = False,
    initial: Initial = "first",
) -> Data:
    """The data of a trial from the episodes of each source of its environment.

    With `labels`, the demonstrations have their actions.
    """
    shown, logged = draw(trial, {source: len(found) for source, found in episodes.items()})
    demonstrations = episodes[EXPERT].select(shown)
    parts = {source: episodes[source].select(numbers) for source, numbers in logged.items()}
    if trial.fragment and EXPERT in parts:
        parts[EXPERT] = cut(parts[EXPERT], trial.fragment, seed=trial.seed)
    return prepare(
        demonstrations.without_actions(),
        mixture(parts),
        initial=initial,
        every=trial.subsample,
        labelled=demonstrations if labels or trial.labelled else None,
    )


def draw(trial: Trial, available: Mapping[str, int]) -> tuple[Numbers, dict[str, Numbers]]:
    """The numbers of the trial's demonstrations among the expert's episodes, and of its logs.

    `available` is the number of episodes of each source.
    """
    count = trial.demonstrations
    _check(trial, available)
    # Seed after seed takes the next ones, and begins again after the last.
    shown = (trial.seed * count + np.arange(count)) % available[EXPERT]
    logged = {}
    for source, n in trial.offline.items():
        size = min(POOL * n + (count if source == EXPERT else 0), available[source])
        pool = np.setdiff1d(np.arange(size), shown) if source == EXPERT else np.arange(size)
        random = np.random.default_rng([trial.seed, SOURCES.index(source)])
        logged[source] = np.sort(random.choice(pool, n, replace=False))
    return shown, logged


def cut(episodes: Episodes, steps: int, *, seed: int) -> Episodes:
    """The episodes in pieces of `steps` steps, in a random order; an episode's last may be shorter.

    A piece terminated only if its episode did, and it is the episode's last.
    """
    count = -(-episodes.lengths // steps)
    which = np.repeat(np.arange(len(episodes)), count)
    first = steps * (np.arange(len(which)) - np.repeat(offsets(count), count))
    order = np.random.default_rng(seed).permutation(len(which))
    which, first = which[order], first[order]
    whole = episodes.lengths[which]
    lengths = np.minimum(steps, whole - first)
    taken = ranges(episodes.step_starts[which] + first, lengths)
    return replace(
        episodes,
        observations=episodes.observations[ranges(episodes.starts[which] + first, lengths + 1)],
        lengths=lengths,
        terminated=episodes.terminated[which] & (first + lengths == whole),
        actions=None if episodes.actions is None else episodes.actions[taken],
        rewards=None if episodes.rewards is None else episodes.rewards[taken],
        source=None if episodes.source is None else episodes.source[which],
        success=None,
        valid=True,
    )


def _pool(trial: Trial) -> dict[str, int]:
    """The number of episodes of each source that the trial needs."""
    sizes = {source: POOL * n for source, n in trial.offline.items()}
    count = trial.demonstrations
    return sizes | {EXPERT: max((trial.seed + 1) * count, sizes.get(EXPERT, 0) + count)}


def _check(trial: Trial, available: Mapping[str, int]) -> None:
    needs = {EXPERT: trial.demonstrations} | {
        source: n + (trial.demonstrations if source == EXPERT else 0)
        for source, n in trial.offline.items()
    }
    for source, n in needs.items():
        if n > available[source]:
            raise LobsDICEError(
                f"{trial.environment} needs {n} {source} episodes, but there are only "
                f"{available[source]}; ask for fewer with --expert, --sizes or --env"
            )
