"""Rolling out the policies of a task, in parallel and reproducibly.

Episode i of a source depends on the seed, the source and i alone: not on how many episodes are
asked for, nor on how many processes roll them out.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lobsdice.console import progress
from lobsdice.data.episodes import Episodes
from lobsdice.data.machine import cores
from lobsdice.environments.gym import Environment, Policy, Recording, make, rollout
from lobsdice.environments.tasks.behaviour import policy_of
from lobsdice.environments.tasks.table import SOURCES, Spec, spec_of
from lobsdice.environments.workers import as_completed
from lobsdice.errors import LobsDICEError

#: Below this many episodes, starting processes takes longer than it saves, and no bar is shown.
FEW = 4
#: Episodes of a job at most. Small, so that the processes finish together.
CHUNK = 8
#: Jobs of a source for each process at least, as far as there are enough episodes.
JOBS_PER_WORKER = 16


class Job(NamedTuple):
    """The episodes start .. stop-1 of a source."""

    task: str
    source: str
    seed: int
    start: int
    stop: int


def collect(
    task: str, counts: Mapping[str, int], *, seed: int = 0, workers: int | None = None
) -> dict[str, Episodes]:
    """The first `counts[source]` episodes of each source, with actions and rewards.

    The same seed gives the same bytes with any number of `workers` (all processors by default).
    """
    check_counts(counts)
    wanted = {source: range(n) for source, n in counts.items() if n}
    if not wanted:
        raise LobsDICEError("there are no episodes to collect: every count is 0")
    return collect_ranges(task, wanted, seed=seed, workers=workers)


def save(folder: str | Path, collected: Mapping[str, Episodes]) -> list[Path]:
    """Write `<source>.npz` for each source into the folder; what was written."""
    from lobsdice.data.formats import write

    paths = [Path(folder) / f"{source}.npz" for source in collected]
    for path, episodes in zip(paths, collected.values(), strict=True):
        write(path, episodes)
    return paths


def collect_ranges(
    task: str, wanted: Mapping[str, range], *, seed: int, workers: int | None = None
) -> dict[str, Episodes]:
    """Like `collect`, for the episodes with these numbers (ranges of step 1)."""
    spec = spec_of(task)
    if seed < 0:
        raise LobsDICEError(f"the seed must not be negative, and is {seed}")
    total = sum(map(len, wanted.values()))
    workers = _workers(workers, total)
    jobs = _jobs(task, wanted, seed, workers)
    done: dict[Job, list[Recording]] = {}
    with closing(as_completed(roll_out, jobs, min(workers, len(jobs)))) as results:
        if total < FEW:
            done.update(results)
        else:
            _gather(results, done, f"Collecting {task}", total)
    return {
        source: _episodes(spec, [r for job in jobs if job.source == source for r in done[job]])
        for source in wanted
    }


def roll_out(job: Job) -> list[Recording]:
    """The work of one process."""
    env, act = _environment(job.task), _policy(job.task, job.source)
    return [
        rollout(env, act, episode_seed(job.seed, job.source, i)) for i in range(job.start, job.stop)
    ]


def episode_seed(seed: int, source: str, index: int) -> np.random.SeedSequence:
    """The seed of one episode of a source."""
    return np.random.SeedSequence(seed, spawn_key=(SOURCES.index(source), index))


def check_counts(counts: Mapping[str, int]) -> None:
    """Raise unless every key is a source and every count a number of episodes."""
    for source, count in counts.items():
        if source not in SOURCES:
            raise LobsDICEError(
                f"there is no source {source!r}; the sources are {', '.join(SOURCES)}"
            )
        if count < 0:
            raise LobsDICEError(f"cannot take {count} {source} episodes")


@cache
def _environment(task: str) -> Environment:
    return make(spec_of(task))


@cache
def _policy(task: str, source: str) -> Policy:
    return policy_of(spec_of(task), source)


def _workers(asked: int | None, episodes: int) -> int:
    if asked is not None and asked < 1:
        raise LobsDICEError(f"collecting needs at least 1 worker, not {asked}")
    if asked is None:
        return 1 if episodes < FEW else cores()
    return asked


def _jobs(task: str, wanted: Mapping[str, range], seed: int, workers: int) -> list[Job]:
    """Small pieces, those with the longest episodes first, so that no process is left with one."""
    jobs = []
    for source in sorted(wanted, key=SOURCES.index):
        numbers = wanted[source]
        size = min(max(len(numbers) // (workers * JOBS_PER_WORKER), 1), CHUNK)
        for start in range(numbers.start, numbers.stop, size):
            jobs.append(Job(task, source, seed, start, min(start + size, numbers.stop)))
    return jobs


def _gather(
    results: Iterable[tuple[Job, list[Recording]]],
    done: dict[Job, list[Recording]],
    description: str,
    total: int,
) -> None:
    steps = 0
    with progress(description, total) as advance:
        for job, recordings in results:
            done[job] = recordings
            steps += sum(len(recording.rewards) for recording in recordings)
            advance(len(recordings), note=f"{steps:,} steps")


def _episodes(spec: Spec, recordings: Sequence[Recording]) -> Episodes:
    return Episodes.from_arrays(
        np.concatenate([r.observations for r in recordings]),
        lengths=[len(r.rewards) for r in recordings],
        terminated=[r.terminated for r in recordings],
        actions=np.concatenate([r.actions for r in recordings]),
        rewards=np.concatenate([r.rewards for r in recordings]),
        action_space=spec.action_space,
    )
