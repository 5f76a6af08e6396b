"""Collection of a task's episodes with its behaviour policies, in parallel and reproducibly.

Episode i of a source depends only on the seed, the source and i. It does not depend on the number
of episodes or of processes.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lobsdice.console import progress
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import write
from lobsdice.data.machine import cores
from lobsdice.environments.gym import Act, Recording, rollout, shared_environment
from lobsdice.environments.tasks.behaviour import behaviour_of
from lobsdice.environments.tasks.table import Spec, spec_of
from lobsdice.environments.workers import as_completed
from lobsdice.errors import LobsDICEError

#: Fewer episodes are collected in this process, and without a progress bar.
FEW = 4
#: Largest number of episodes of a job. It is small so that the processes finish together.
CHUNK = 8
#: Jobs of a source for each process, if there are enough episodes.
JOBS_PER_WORKER = 16


class Job(NamedTuple):
    """The episodes start, ..., stop - 1 of a source."""

    task: str
    source: str
    seed: int
    start: int
    stop: int


def collect(
    task: str, counts: Mapping[str, int], *, seed: int = 0, workers: int | None = None
) -> dict[str, Episodes]:
    """The first `counts[source]` episodes of each source, with actions and rewards.

    The same seed gives the same bytes for any number of `workers` (default: one per processor).
    """
    check_counts(spec_of(task), counts)
    wanted = {source: range(n) for source, n in counts.items() if n}
    if not wanted:
        raise LobsDICEError("there are no episodes to collect: every count is 0")
    return collect_ranges(task, wanted, seed=seed, workers=workers)


def save(folder: str | Path, collected: Mapping[str, Episodes]) -> list[Path]:
    """Write `<source>.npz` for each source into the folder, and return the paths."""
    paths = [Path(folder) / f"{source}.npz" for source in collected]
    for path, episodes in zip(paths, collected.values(), strict=True):
        write(path, episodes)
    return paths


def collect_ranges(
    task: str, wanted: Mapping[str, range], *, seed: int, workers: int | None = None
) -> dict[str, Episodes]:
    """The episodes with these numbers of each source. The ranges have step 1."""
    spec = spec_of(task)
    if seed < 0:
        raise LobsDICEError(f"the seed must not be negative, but is {seed}")
    total = sum(map(len, wanted.values()))
    if workers is None:
        workers = 1 if total < FEW else cores()
    jobs = _jobs(task, wanted, seed, max(workers, 1))
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
    """The episodes of a job."""
    env, act, spec = shared_environment(job.task), _policy(job.task, job.source), spec_of(job.task)
    seeds = (episode_seed(spec, job.seed, job.source, i) for i in range(job.start, job.stop))
    return [rollout(env, act, seed) for seed in seeds]


def episode_seed(spec: Spec, seed: int, source: str, index: int) -> np.random.SeedSequence:
    """The seed of one episode of a source."""
    return np.random.SeedSequence(seed, spawn_key=(spec.sources.index(source), index))


def check_counts(spec: Spec, counts: Mapping[str, int]) -> None:
    """Raise if a key is not a source of the task or a count is negative."""
    for source, count in counts.items():
        if source not in spec.sources:
            raise LobsDICEError(
                f"{spec.name} has no source {source!r}; its sources are {', '.join(spec.sources)}"
            )
        if count < 0:
            raise LobsDICEError(f"cannot take {count} {source} episodes")


@cache
def _policy(task: str, source: str) -> Act:
    return behaviour_of(spec_of(task), source)


def _jobs(task: str, wanted: Mapping[str, range], seed: int, workers: int) -> list[Job]:
    """Small jobs. Those with long episodes come first, so that none is left to the end."""
    jobs = []
    for source in sorted(wanted, key=spec_of(task).sources.index):
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
            advance(len(recordings), note=f"({steps:,} steps)")


def _episodes(spec: Spec, recordings: Sequence[Recording]) -> Episodes:
    return Episodes.from_arrays(
        np.concatenate([r.observations for r in recordings]),
        lengths=[len(r.rewards) for r in recordings],
        terminated=[r.terminated for r in recordings],
        actions=np.concatenate([r.actions for r in recordings]),
        rewards=np.concatenate([r.rewards for r in recordings]),
        action_space=spec.action_space,
    )
