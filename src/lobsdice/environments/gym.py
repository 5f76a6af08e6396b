"""Environments of Gymnasium, and rollouts in them."""

import importlib.metadata
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
    if name.startswith(NAMESPACE):
        importlib.import_module(ROOM)
    with _quiet_mujoco(), warnings.catch_warnings():
        # Recordings may be older than the newest version, and need theirs.
        warnings.filterwarnings("ignore", ".* is out of date", DeprecationWarning)
        try:
            return gymnasium.make(
                name, disable_env_checker=True, render_mode=render_mode, **options
            )
        except gymnasium.error.Error as error:
            reason = str(error).splitlines()[0]
            raise LobsDICEError(f"Gymnasium cannot make {name!r}: {reason}") from error


def _spec(environment: str) -> Spec | None:
    """The task of a name or of a world's id. Other ids mean Gymnasium's environments as they are,
    without the options of a task."""
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


def rollout(env: Environment, act: Act, seed: np.random.SeedSequence) -> Recording:
    """Record one episode. It depends only on the arguments."""
    random = np.random.default_rng(seed)
    state, _ = env.reset(seed=int(seed.generate_state(1, np.uint64)[0]))
    observations = [np.asarray(state, np.float32)]
    actions, rewards = [], []
    terminated = truncated = False
    while not (terminated or truncated):
        action = act(observations[-1], random)
        state, reward, terminated, truncated, _ = env.step(action)
        observations.append(np.asarray(state, np.float32))
        actions.append(action)
        rewards.append(reward)
    return Recording(
        np.stack(observations), np.stack(actions), np.array(rewards, np.float32), bool(terminated)
    )


def returns(
    env: Environment, act: Act, seeds: Iterable[np.random.SeedSequence]
) -> Float64[np.ndarray, " episodes"]:
    """The return of one episode for each seed."""
    return np.array([rollout(env, act, seed).rewards.sum(dtype=np.float64) for seed in seeds])
