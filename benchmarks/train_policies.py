"""Train a behaviour policy of a MuJoCo task by soft actor-critic (Haarnoja et al., 2018).

    python benchmarks/train_policies.py ant --steps 2000000 --seed 1 --fall 200 --out policies/ant

Every --every steps it writes OUT/STEP.npz, in the format of the shipped policies, and a line of
OUT/log.csv: the returns of that policy and how many of its episodes terminated, without noise and
with all of its own. To ship one, see `lobsdice.environments.tasks.behaviour`. The expert and the
medium policy of a task should come from different seeds: a snapshot of the expert's own training
acts much like the expert.

Three things make a policy steadier than plain soft actor-critic does: the policy that is kept is a
running average, environments explore with different shares of the noise, and --fall takes a price
from the reward of a step that terminates. The physics needs the CPU, so a GPU is mostly idle: run
several seeds at the same time, with XLA_PYTHON_CLIENT_PREALLOCATE=false.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from lobsdice.data.files import atomic, write_csv
from lobsdice.environments.evaluate import episode_seeds
from lobsdice.environments.gym import make, rollout, shared_environment
from lobsdice.environments.tasks.behaviour import LOG_STD, TrainedBehaviour
from lobsdice.environments.tasks.table import TASKS

#: A network: the weights and the bias of each layer.
Net = list[tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Settings:
    task: Annotated[str, tyro.conf.Positional]
    """hopper, walker2d, halfcheetah or ant."""
    out: Path
    """Folder to write."""
    steps: int = 1_000_000
    """Steps of all environments together, with a gradient step for each."""
    seed: int = 0
    environments: int = 8
    """Environments side by side, each in a process. The i-th explores with i/(n-1) of the noise."""
    fall: float = 0.0
    """Price of a termination in training; evaluations do not have it."""
    every: int = 50_000
    """Steps between policies that are written."""
    episodes: int = 20
    """Episodes of an evaluation."""
    width: int = 256
    batch_size: int = 256
    gamma: float = 0.99
    rate: float = 3e-4
    target_rate: float = 0.005
    """Share of the critics in their targets' running average."""
    average_rate: float = 5e-4
    """Share of the policy in its running average."""
    warm_up: int = 10_000
    """Steps of random actions before the first gradient step."""


class Learner(NamedTuple):
    """All that a gradient step changes."""

    actor: Net
    critics: tuple[Net, Net]
    log_temperature: jax.Array
    targets: tuple[Net, Net]
    average: Net
    """The running average of the actor, which is the policy that is kept."""
    optimiser: Any


class Transition(NamedTuple):
    """Transitions, in arrays of NumPy or JAX with a leading axis."""

    s: Any
    a: Any
    reward: Any
    ended: Any
    s_next: Any


# ---- Networks ----


def make_net(key: jax.Array, *sizes: int) -> Net:
    pairs = list(pairwise(sizes))
    keys = jax.random.split(key, len(pairs))
    bounds = [1 / math.sqrt(inputs) for inputs, _ in pairs]
    return [
        (jax.random.uniform(k, pair, minval=-b, maxval=b), jnp.zeros(pair[1]))
        for k, pair, b in zip(keys, pairs, bounds, strict=True)
    ]


def apply_net(net: Net, x: jax.Array) -> jax.Array:
    *hidden, (weights, bias) = net
    for w, b in hidden:
        x = jax.nn.relu(x @ w + b)
    return x @ weights + bias


def sample(
    actor: Net, s: jax.Array, key: jax.Array, noise: jax.Array | float = 1.0
) -> tuple[jax.Array, jax.Array]:
    """Actions a = tanh(u) with this share of the noise in u, and their log π(a|s)."""
    mean, log_std = jnp.split(apply_net(actor, s), 2, axis=-1)
    log_std = jnp.clip(log_std, *LOG_STD)
    normal = noise * jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * normal
    log_normal = -0.5 * normal**2 - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))  # log(1 - tanh(u)²), stably
    return jnp.tanh(u), (log_normal - log_slope).sum(axis=-1)


def least_value(critics: tuple[Net, Net], s: jax.Array, a: jax.Array) -> jax.Array:
    return jnp.minimum(*(value(critic, s, a) for critic in critics))


def value(critic: Net, s: jax.Array, a: jax.Array) -> jax.Array:
    return apply_net(critic, jnp.concatenate([s, a], axis=-1))[..., 0]


# ---- Learning ----


def begin(settings: Settings, key: jax.Array) -> Learner:
    states, actions = _sizes(settings)
    k_actor, *k_critics = jax.random.split(key, 3)
    layers = settings.width, settings.width
    actor = make_net(k_actor, states, *layers, 2 * actions)
    one, two = (make_net(k, states + actions, *layers, 1) for k in k_critics)
    learned = (actor, (one, two), jnp.zeros(()))
    return Learner(*learned, (one, two), actor, _adam(settings).init(learned))


def improve(settings: Settings, learner: Learner, batch: Transition, key: jax.Array) -> Learner:
    """Take one gradient step of the actor, the critics and the temperature."""
    k_next, k_now = jax.random.split(key)
    temperature = jnp.exp(learner.log_temperature)
    a_next, log_next = sample(learner.actor, batch.s_next, k_next)
    follows = least_value(learner.targets, batch.s_next, a_next) - temperature * log_next
    wanted = batch.reward + settings.gamma * (1 - batch.ended) * follows

    def loss(learned: tuple[Net, tuple[Net, Net], jax.Array]) -> jax.Array:
        actor, critics, log_temperature = learned
        errors = (value(critic, batch.s, batch.a) - wanted for critic in critics)
        a, log_prob = sample(actor, batch.s, k_now)
        gain = least_value(jax.lax.stop_gradient(critics), batch.s, a)
        # The temperature rises while the entropy is below minus the number of actions.
        surplus = jax.lax.stop_gradient(log_prob).mean() - a.shape[-1]
        parts = [(error**2).mean() for error in errors]
        return sum(parts) + (temperature * log_prob - gain).mean() - log_temperature * surplus

    learned = learner[:3]
    changes, optimiser = _adam(settings).update(jax.grad(loss)(learned), learner.optimiser)
    moved: Any = optax.apply_updates(learned, changes)
    actor, critics, log_temperature = moved
    targets: Any = optax.incremental_update(critics, learner.targets, settings.target_rate)
    average: Any = optax.incremental_update(actor, learner.average, settings.average_rate)
    return Learner(actor, critics, log_temperature, targets, average, optimiser)


@partial(jax.jit, static_argnames="settings")
def improve_often(
    settings: Settings, learner: Learner, memory: Transition, size: jax.Array, key: jax.Array
) -> Learner:
    """Take a gradient step for each environment's step, on batches from the memory's first rows."""

    def once(learner: Learner, key: jax.Array) -> tuple[Learner, None]:
        k_rows, k_loss = jax.random.split(key)
        rows = jax.random.randint(k_rows, (settings.batch_size,), 0, size)
        return improve(settings, learner, jax.tree.map(lambda x: x[rows], memory), k_loss), None

    return jax.lax.scan(once, learner, jax.random.split(key, settings.environments))[0]


@partial(jax.jit, donate_argnums=0)
def remember(memory: Transition, rows: Transition, start: jax.Array) -> Transition:
    return jax.tree.map(
        lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, start, 0), memory, rows
    )


# ---- The loop ----


def train(settings: Settings) -> None:
    n, (states, actions) = settings.environments, _sizes(settings)
    room = -(-settings.steps // n) * n
    memory = Transition(
        *(jnp.zeros((room, *size)) for size in ((states,), (actions,), (), (), (states,)))
    )
    key, k_begin = jax.random.split(jax.random.key(settings.seed))
    learner, act = begin(settings, k_begin), make_act(settings)
    one: Any = partial(make, settings.task)
    envs: Any = AsyncVectorEnv(
        [one] * n,
        autoreset_mode=AutoresetMode.SAME_STEP,
        context="spawn",  # JAX has threads, beside which forked processes are not safe
    )
    s, _ = envs.reset(seed=settings.seed * n)
    log, started = [], time.monotonic()
    for step in range(0, room, n):
        key, k_act, k_learn = jax.random.split(key, 3)
        learning = step >= settings.warm_up
        a = np.asarray(act(learner.actor, s, k_act, learning))
        envs.step_async(a)
        if learning:  # while the environments take their steps
            learner = improve_often(settings, learner, memory, jnp.int32(step), k_learn)
        rows, s = seen(s, a, envs.step_wait(), settings.fall)
        memory = remember(memory, rows, jnp.int32(step))
        done = step + n
        if done // settings.every > step // settings.every or done == room:
            log.append({"step": done, **keep(settings, learner.average, done)})
            write_csv(settings.out / "log.csv", log)
            print(log[-1], f"{done / (time.monotonic() - started):.0f} steps/s", flush=True)
    envs.close()


def make_act(settings: Settings) -> Callable[..., jax.Array]:
    """A function that chooses the actions of all environments: random ones in the warm-up."""
    n, (_, actions) = settings.environments, _sizes(settings)
    shares = jnp.linspace(1.0 if n == 1 else 0.0, 1.0, n)[:, None]

    @jax.jit
    def act(actor: Net, s: jax.Array, key: jax.Array, learning: jax.Array) -> jax.Array:
        chosen, _ = sample(actor, s.astype(jnp.float32), key, shares)
        blind = jax.random.uniform(key, (n, actions), minval=-1, maxval=1)
        return jnp.where(learning, chosen, blind)

    return act


def seen(s: np.ndarray, a: np.ndarray, result: Any, fall: float) -> tuple[Transition, np.ndarray]:
    """The transitions of a step, and the states that the environments are in after it."""
    s_next, reward, ended, truncated, info = result
    after = np.array(s_next)
    for i in np.flatnonzero(ended | truncated):  # there s_next is the start of a new episode
        after[i] = info["final_obs"][i]
    rows = (s, a, reward - fall * ended, ended, after)
    return Transition(*(np.asarray(x, np.float32) for x in rows)), s_next


def keep(settings: Settings, actor: Net, step: int) -> dict[str, str]:
    """Write a policy, and return what its episodes are like."""
    layers = tuple((np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in actor)
    arrays: dict[str, Any] = {}
    for i, (weights, bias) in enumerate(layers):
        arrays |= {f"w{i}": weights, f"b{i}": bias}
    with atomic(settings.out / f"{step}.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return {
        f"{name}_noise_{noise:g}": text
        for noise in (0.0, 1.0)
        for name, text in judge(settings, TrainedBehaviour(layers, noise)).items()
    }


def judge(settings: Settings, act: TrainedBehaviour) -> dict[str, str]:
    """The returns of a policy, and the share of its episodes that terminated."""
    env, seeds = shared_environment(settings.task), episode_seeds(settings.episodes, 0)
    played = [rollout(env, act, seed) for seed in seeds]
    returns = np.array([episode.rewards.sum() for episode in played])
    return {
        "return": f"{returns.mean():.0f}",
        "deviation": f"{returns.std():.0f}",
        "terminated": f"{np.mean([episode.terminated for episode in played]):.2f}",
    }


def _adam(settings: Settings) -> optax.GradientTransformation:
    return optax.adam(settings.rate)


def _sizes(settings: Settings) -> tuple[int, int]:
    spec = TASKS[settings.task]
    return spec.state_size, spec.action_size


if __name__ == "__main__":
    chosen = tyro.cli(Settings)
    if chosen.task not in TASKS:
        raise SystemExit(f"there is no task {chosen.task!r}, only {', '.join(TASKS)}")
    train(chosen)
