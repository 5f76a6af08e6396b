"""Environments of Gymnasium, and rollouts in them."""

import importlib.metadata
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64, Int64

from lobsdice.environments.tasks.table import BUILT_IN, ROOM, Spec, task_of
from lobsdice.errors import LobsDICEError, missing, require

#: Words of the error for a package that is not installed.
NEEDED_BY, EXTRA = "the environment", "mujoco"
#: The ids of the worlds begin with this; Gymnasium knows them once their package is imported.
NAMESPACE = "lobsdice/"
#: Steps of an episode at most, in an environment without a limit of its own.
LONGEST = 100_000
#: A function from an observation to an action. All its randomness is from the generator.
Act = Callable[[np.ndarray, np.random.Generator], Any]


@runtime_checkable
class Environment(Protocol):
    """The part of Gymnasium's interface that is used here."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]: ...
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]: ...


class Recording(NamedTuple):
    """One episode of T steps."""

    observations: Float32[np.ndarray, "T+1 state"]
    actions: Float32[np.ndarray, "T action"] | Int64[np.ndarray, " T"]
    rewards: Float32[np.ndarray, " T"]
    terminated: bool


def versions(spec: Spec) -> dict[str, str]:
    """The versions of the packages behind a task's environment, which are not imported."""
    found = {}
    for package in spec.packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as error:
            raise missing(package, needed_by=NEEDED_BY, extra=spec.extra) from error
    return found


def make(environment: Spec | str, *, render_mode: str | None = None) -> Environment:
    """Make the environment of a built-in task, or of a Gymnasium id."""
    spec = _spec(environment) if isinstance(environment, str) else environment
    gymnasium = _required(spec)
    name, options = (spec.environment, spec.options) if spec else (str(environment), {})
    mode = {} if render_mode is None else {"render_mode": render_mode}  # not all have the argument
    if name.startswith(NAMESPACE):
        importlib.import_module(ROOM)
    with _quiet_mujoco(), warnings.catch_warnings():
        # Recordings may be older than the newest version, and need theirs.
        warnings.filterwarnings("ignore", ".* is out of date", DeprecationWarning)
        try:
            return gymnasium.make(name, disable_env_checker=True, **mode, **options)
        except gymnasium.error.Error as error:
            raise LobsDICEError(f"Gymnasium cannot make {name!r}: {_first_line(error)}") from error
        except ModuleNotFoundError as error:
            reason = str(error).partition(". Environment registration")[0]
            hint = "$PYTHONPATH names folders with modules of your own"
            raise LobsDICEError(f"Gymnasium cannot make {name!r}: {reason}; {hint}") from error
        except Exception as error:  # of the environment's own code
            raise broken(name, "cannot be made", error) from error


def registered(name: Any) -> str:
    """An environment's name that was read in a file: a built-in task, or an id that is registered.

    Making `module:id` executes the module, so only the user may ask for it.
    """
    if not isinstance(name, str):
        raise LobsDICEError(f"the run folder names no environment, but {name!r}; use --env")
    if ":" in name:
        raise LobsDICEError(
            f"the run folder names the environment {name!r}, and a module is imported only if you "
            f"name it yourself: --env {name}"
        )
    return name


def broken(name: str, what: str, error: Exception) -> LobsDICEError:
    """The error for an environment whose own code failed; --debug shows where."""
    reason = ": ".join(filter(None, (type(error).__name__, _first_line(error))))
    found = LobsDICEError(f"the environment {name} {what}: {reason}")
    found.add_note("".join(traceback.format_exception(error)))  # it comes with a worker's error
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _spec(environment: str) -> Spec | None:
    """The task of a name or of a world's id; None for all others.

    Other ids mean Gymnasium's environments, without the options of a task.
    """
    return task_of(environment) if environment.startswith(NAMESPACE) else BUILT_IN.get(environment)


def _required(spec: Spec | None) -> Any:
    """Gymnasium; raise if a package that the task needs is not installed."""
    if spec is not None:
        versions(spec)
        if "mujoco" in spec.packages:
            require("mujoco", needed_by=NEEDED_BY, extra=spec.extra)
    return require("gymnasium", needed_by=NEEDED_BY, extra=EXTRA)


#: The environment of a name, made once per process.
shared_environment = cache(make)


@contextmanager
def _quiet_mujoco() -> Iterator[None]:
    """Silence MuJoCo's warnings about outdated models, which it prints and writes to a file."""
    try:
        mujoco: Any = importlib.import_module("mujoco")
    except ImportError:
        yield
        return
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(previous)


def is_environment(given: Any) -> bool:
    """True for an environment itself, as against its class or its name."""
    return not isinstance(given, type) and isinstance(given, Environment)


def opened(given: Any) -> Any:
    """An environment, or the name of one; a function is called to make it."""
    if isinstance(given, str) or is_environment(given):
        return given
    if not callable(given):
        raise LobsDICEError(
            f"the environment is a value of type {type(given).__name__}; it must be a Gymnasium "
            "environment, a function that makes one, or the name of one"
        )
    found = given()
    if not is_environment(found):
        raise LobsDICEError(
            f"the function for the environment made a value of type {type(found).__name__}, which "
            "lacks `reset` or `step`"
        )
    return found


def rollout(env: Environment, act: Act, seed: np.random.SeedSequence) -> Recording:
    """Record one episode. It depends only on the arguments."""
    random = np.random.default_rng(seed)
    observations = [reset(env, int(seed.generate_state(1, np.uint64)[0]))]
    actions, rewards = [], []
    terminated = truncated = False
    while not (terminated or truncated):
        if len(actions) == LONGEST and not time_limit(env):
            raise LobsDICEError(
                f"an episode of {name_of(env)} has not ended after {LONGEST:,} steps; register the "
                "environment with max_episode_steps"
            )
        action = act(observations[-1], random)
        observation, reward, terminated, truncated = step(env, action)
        observations.append(observation)
        actions.append(action)
        rewards.append(reward)
    return Recording(
        np.stack(observations), np.stack(actions), np.array(rewards, np.float32), terminated
    )


def reset(env: Environment, seed: int) -> Float32[np.ndarray, "..."]:
    """The first observation of an episode."""
    try:
        found = env.reset(seed=seed)
    except Exception as error:
        raise broken(name_of(env), "fails to reset", error) from error
    # The first number of an observation alone would be taken for all of it.
    if not isinstance(found, tuple) or len(found) != 2:
        raise LobsDICEError(
            f"`reset` of the environment {name_of(env)} returned a value of type "
            f"{type(found).__name__}; as in Gymnasium, it must return (observation, info)"
        )
    try:
        return np.asarray(found[0], np.float32)
    except (TypeError, ValueError) as error:
        raise broken(name_of(env), "fails to reset", error) from error


def step(env: Environment, action: Any) -> tuple[Float32[np.ndarray, "..."], float, bool, bool]:
    """The next observation, the reward, and whether the episode is terminated or truncated."""
    try:
        state, reward, terminated, truncated, _ = env.step(action)
        return np.asarray(state, np.float32), float(reward), bool(terminated), bool(truncated)
    except Exception as error:
        raise broken(name_of(env), "fails in a step", error) from error


def name_of(env: Environment) -> str:
    """The name of an environment that users know: its id, or its class."""
    spec = getattr(env, "spec", None)
    return spec.id if spec else type(env).__name__


def time_limit(env: Environment) -> int | None:
    """The number of steps after which Gymnasium ends an episode, if it does."""
    named = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return named or getattr(env, "_max_episode_steps", None)  # of a TimeLimit around it


def returns(
    env: Environment, act: Act, seeds: Iterable[np.random.SeedSequence]
) -> Float64[np.ndarray, " episodes"]:
    """The return of one episode for each seed."""
    return np.array([rollout(env, act, seed).rewards.sum(dtype=np.float64) for seed in seeds])
