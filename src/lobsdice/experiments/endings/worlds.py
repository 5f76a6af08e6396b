"""The data of a run, what counts as success, and how often the demonstrator succeeds; without JAX.

In grid, reach and pointmaze the reward is 1 at success and 0 elsewhere, so the return of a
successful episode is 1. In cartpole it is a step's 1, and success is to reach the limit of steps.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from lobsdice.console import progress
from lobsdice.data.episodes import Episodes
from lobsdice.data.machine import cores
from lobsdice.data.prepare import Data, Initial, prepare
from lobsdice.environments.evaluate import episode_seeds
from lobsdice.environments.gym import Act, returns, shared_environment
from lobsdice.environments.tasks.behaviour import behaviour_of
from lobsdice.environments.tasks.table import family, spec_of
from lobsdice.environments.tasks.task import load
from lobsdice.environments.workers import as_completed

#: Episodes of the demonstrator that a process plays at a time.
CHUNK = 20


class Job(NamedTuple):
    """The evaluation episodes start, ..., stop - 1 of a world's demonstrator."""

    world: str
    start: int
    stop: int


def successes(world: str, found: Float64[np.ndarray, " episodes"]) -> Bool[np.ndarray, " episodes"]:
    """True for each episode that succeeded, by its return; False if it broke the simulation."""
    return found >= (spec_of(world).max_steps if family(world) == "cartpole" else 1)


def successful(world: str, episodes: Episodes) -> Episodes:
    """The episodes that succeeded."""
    found = episodes.returns()
    assert found is not None  # collected episodes have rewards
    return episodes.select(np.flatnonzero(successes(world, found)))


def make_data(
    world: str,
    seed: int,
    *,
    oracle: bool = False,
    labels: bool = False,
    initial: Initial = "first",
) -> Data:
    """The data of a run. With `oracle`, the logs are the successful episodes alone.

    With `labels`, the demonstrations have their actions.
    """
    task = load(world, seed=seed)
    logs = successful(world, task.offline) if oracle else task.offline
    labelled = task.labelled if labels and not oracle else None
    # As in `Task.data`: what a task with few states shares by chance is no leak.
    leak = task.spec.finite
    return prepare(task.expert, logs, initial=initial, allow_leak=leak, labelled=labelled)


def demonstrate(world: str, episodes: int) -> Float64[np.ndarray, " episodes"]:
    """The demonstrator's returns in episodes like those of an evaluation."""
    starts = range(0, episodes, CHUNK)
    jobs = [Job(world, start, min(start + CHUNK, episodes)) for start in starts]
    found = np.empty(episodes)
    with progress(f"Demonstrator of {world}", episodes) as advance:
        for job, values in as_completed(play, jobs, min(cores(), len(jobs))):
            found[job.start : job.stop] = values
            advance(len(values))
    return found


def play(job: Job) -> Float64[np.ndarray, " episodes"]:
    """The demonstrator's returns in the episodes of a job."""
    seeds = episode_seeds(job.stop, 0)[job.start :]
    return returns(shared_environment(job.world), _demonstrator(job.world), seeds)


@cache
def _demonstrator(world: str) -> Act:
    return behaviour_of(spec_of(world), "expert")
