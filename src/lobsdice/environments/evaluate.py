"""Returns of policies in an environment. Episodes run in parallel and depend only on the seed."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from lobsdice.data.machine import cores
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.environments.gym import (
    LONGEST,
    Environment,
    make,
    name_of,
    opened,
    reset,
    returns,
    shared_environment,
    step,
    time_limit,
)
from lobsdice.environments.tasks.table import task_of
from lobsdice.environments.workers import as_completed
from lobsdice.errors import DataWarning, LobsDICEError, NotFiniteError, plural
from lobsdice.policies.policy import Policy

#: Bounds of actions differ clearly if a policy's exceed the environment's by more than this share
#: of their width, or if the environment's are more than so many times as wide.
EXCESS, WIDER = 0.05, 2.0
#: Part of the seed of every evaluation, so that no evaluation repeats an episode of the data.
EVALUATION = 7919


class Job(NamedTuple):
    """One episode of one policy. Episodes are single jobs because their lengths differ widely."""

    number: int
    policy: Policy
    environment: Any
    """Its name, or itself."""
    seed: np.random.SeedSequence
    stochastic: bool


def evaluate(
    policies: Policy | Sequence[Policy],
    environment: Any,
    *,
    episodes: int = 10,
    seed: int = 0,
    stochastic: bool = False,
    workers: int | None = None,
) -> Float64[np.ndarray, "*policies episodes"]:
    """The return of each policy in each episode. Episode i starts alike for every policy.

    `environment` is the name of a built-in task or a Gymnasium id, or one of them for each policy;
    or an environment itself, or a function that makes one, which then runs in this process alone.
    Of a single policy, the returns are one row of numbers. With `stochastic`, actions are drawn
    from the policy; otherwise the likeliest is taken.
    """
    options: Any = {"seed": seed, "stochastic": stochastic, "workers": workers}
    if isinstance(policies, Policy):
        return evaluate([policies], environment, episodes=episodes, **options)[0]
    where = _places(environment, len(policies))
    warn_of_bounds(policies, where)
    return _returns(policies, where, episodes=episodes, **options)


def _returns(
    policies: Sequence[Policy],
    where: Sequence[Any],
    *,
    episodes: int = 10,
    seed: int = 0,
    stochastic: bool = False,
    workers: int | None = None,
) -> Float64[np.ndarray, "policies episodes"]:
    """The return of each policy in each episode, in the environment of each policy."""
    seeds = episode_seeds(episodes, seed)
    jobs = [
        Job(i * episodes + j, policy, here, s, stochastic)
        for i, (policy, here) in enumerate(zip(policies, where, strict=True))
        for j, s in enumerate(seeds)
    ]
    found = np.empty(len(jobs))
    workers = cores() if workers is None else workers
    if not all(isinstance(here, str) for here in where):
        workers = 1  # an object belongs to this process
    for job, value in as_completed(play_episode, jobs, min(workers, len(jobs))):
        found[job.number] = value
    if broken := np.isnan(found).sum():
        warnings.warn(
            f"{broken} of {plural(len(jobs), 'episode')} have no return: the environment gave "
            "numbers that are not finite",
            stacklevel=3,
        )
    return found.reshape(len(policies), episodes)


def _places(environment: Any, count: int) -> Sequence[Any]:
    """The environment of each policy."""
    if isinstance(environment, list | tuple):
        return environment
    return [opened(environment)] * count


def episode_seeds(episodes: int, seed: int) -> list[np.random.SeedSequence]:
    """The seeds of the episodes of an evaluation."""
    if episodes < 1:
        raise LobsDICEError(f"cannot evaluate {episodes} episodes")
    if seed < 0:
        raise LobsDICEError(f"the seed must not be negative, but is {seed}")
    return np.random.SeedSequence([EVALUATION, seed]).spawn(episodes)


def summaries(
    policies: Sequence[Policy], environment: Any, **options: Any
) -> list[dict[str, float]]:
    """Mean and standard deviation of each policy's returns, with its score in a built-in task.

    `options` are those of `evaluate`. Bounds of actions are not compared, as `try_step` does it.
    """
    spec = task_of(environment) if isinstance(environment, str) else None
    normalised = spec and spec.normalised
    found = _returns(policies, _places(environment, len(policies)), **options)
    return [summary(row, normalised) for row in found]


def summary(
    returns: Float64[np.ndarray, " episodes"], normalised: Callable[[float], Any] | None
) -> dict[str, float]:
    """Mean and standard deviation of a policy's returns, and its score if there is a scale."""
    report = {"return": float(returns.mean()), "return_std": float(returns.std())}
    return report | ({"score": float(normalised(report["return"]))} if normalised else {})


def play_episode(job: Job) -> float:
    """The return of one episode; NaN if the simulation breaks down, which must not end training."""
    env = made(job.environment)
    check_actions(env, job.policy.action_space, called(job.environment))

    def act(observation: np.ndarray, random: np.random.Generator):
        return job.policy.act(observation, random if job.stochastic else None)

    try:
        return float(returns(env, act, [job.seed])[0])
    except NotFiniteError:
        return float("nan")


def made(environment: Any) -> Environment:
    """The environment of a name, or an environment itself."""
    return shared_environment(environment) if isinstance(environment, str) else environment


def try_step(environment: Any, state_size: int, actions: ActionSpace) -> None:
    """Take one step in an environment; raise if policies of such states and actions cannot."""
    env = make(environment) if isinstance(environment, str) else environment
    name = called(environment)
    check_actions(env, actions, name)
    if said := other_bounds(env, actions, name):
        warnings.warn(said, DataWarning, stacklevel=2)
    if not time_limit(env):
        warnings.warn(
            f"{name} has no limit of steps; if an episode never ends, evaluation stops "
            f"with an error after {LONGEST:,} steps: register it with max_episode_steps, or wrap "
            "it in gymnasium.wrappers.TimeLimit",
            stacklevel=2,
        )
    found = reset(env, 0).shape
    if found != (state_size,):
        raise LobsDICEError(
            f"states in the data have {state_size} numbers, but observations of {name} "
            f"have the shape {found}"
        )
    some = actions.decode(np.zeros(actions.size, np.float32)) if isinstance(actions, Box) else 0
    step(env, some)


def called(environment: Any) -> str:
    """The name of an environment, as the user gave it."""
    return environment if isinstance(environment, str) else name_of(environment)


def check_actions(env: Environment, ours: ActionSpace, name: str) -> None:
    """Raise if a policy's actions do not fit. Not every environment would report that."""
    theirs = getattr(env, "action_space", None)
    wanted, given = ("n", ours.n) if isinstance(ours, Discrete) else ("shape", (ours.size,))
    if theirs is not None and getattr(theirs, wanted, None) != given:
        raise LobsDICEError(
            f"the policy's actions are not those of {name}: {ours} against {theirs}"
        )


def warn_of_bounds(policies: Sequence[Policy], places: Sequence[Any]) -> None:
    """Warn once of each environment whose bounds of actions are clearly others than a policy's.

    Built-in tasks have those of their data.
    """
    said = {}
    for policy, place in zip(policies, places, strict=True):
        known = isinstance(place, str) and task_of(place)
        if isinstance(policy.action_space, Box) and not known:
            name = called(place)
            said[other_bounds(made(place), policy.action_space, name)] = True
    for sentence in filter(None, said):
        warnings.warn(sentence, DataWarning, stacklevel=3)


def other_bounds(env: Environment, ours: ActionSpace, name: str) -> str | None:
    """A sentence if an environment's bounds of actions are clearly others than a policy's."""
    theirs: Any = getattr(env, "action_space", None)
    low: Any = getattr(theirs, "low", None)
    high: Any = getattr(theirs, "high", None)
    if not isinstance(ours, Box) or np.shape(low) != (ours.size,) or np.shape(high) != (ours.size,):
        return None
    wide, narrow = np.subtract(high, low), np.subtract(ours.high, ours.low)
    excess = np.maximum(np.subtract(low, ours.low), np.subtract(ours.high, high))
    # An environment without bounds takes all actions.
    differ = (excess > EXCESS * narrow) | (np.isfinite(wide) & (wide > WIDER * narrow))
    if not differ.any():
        return None
    first = int(np.flatnonzero(differ)[0])
    return (
        f"the policy's actions are in [{ours.low[first]:g}, {ours.high[first]:g}], but those of "
        f"{name} in [{low[first]:g}, {high[first]:g}] (action {first}); if the units differ, "
        "convert the actions where the policy meets the environment"
    )
