"""Train behaviour policies of a MuJoCo task by soft actor-critic (Haarnoja et al., 2018).

    python benchmarks/train_policies.py ant --seeds 1 2 --high 10 --minutes 6 --out policies/ant

Several policies are learned side by side, one for each of --seeds. --begin, --fall, --high,
--temperature and --pace take one value for all of them or one for each. Every --every seconds it
writes OUT/SEED-STEP.npz for each seed, in the format of the shipped policies, and prints the
returns of that policy and how many of its episodes terminated. OUT/log.csv has the same lines at
the end. OUT/best.csv has more episodes of the best policies. To ship one, see
`lobsdice.environments.tasks.behaviour`. The expert and the medium policy of a task should come from
different seeds: a snapshot of the expert's own training acts much like the expert.

What makes a policy steadier than plain soft actor-critic does: the policy that is kept is a running
average; environments explore with different shares of the noise; --fall takes a price from the
reward of a step that terminates. Ant "falls" by jumping above a height of 1, and --high takes a
price for every step above 0.7. Evaluations have no such prices.

The physics steps in native threads (`many_robots.py`) while the accelerator learns. Several tasks
can be trained at the same time, with XLA_PYTHON_CLIENT_PREALLOCATE=false.
"""

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
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
from many_robots import ROBOTS, Robots

from lobsdice.data.files import atomic, write_csv
from lobsdice.environments.tasks.behaviour import LOG_STD
from lobsdice.environments.tasks.table import TASKS

#: A network: the weights and the bias of each layer.
Net = list[tuple[Any, Any]]

#: The height of Ant's torso that is free of a price. Its episodes end above 1.
FREE_HEIGHT = 0.7


@dataclass(frozen=True)
class Settings:
    task: Annotated[str, tyro.conf.Positional]
    """hopper, walker2d, halfcheetah or ant."""
    out: Path
    """Folder to write."""
    minutes: float = 6.0
    """Training stops after this time. Evaluations of the best policies follow it."""
    steps: int = 10_000_000
    """Training stops after this many steps of each seed's environments."""
    seeds: tuple[int, ...] = (0,)
    """A policy is learned for each."""
    begin: tuple[str, ...] = ("",)
    """Policy files to begin with, or "" to begin with a random network."""
    fall: tuple[float, ...] = (0.0,)
    """Price of a termination."""
    high: tuple[float, ...] = (0.0,)
    """Price of each metre that Ant's torso is above the free height, in each step."""
    every: float = 60.0
    """Seconds between policies that are written."""
    episodes: int = 64
    """Episodes of an evaluation."""
    noises: tuple[float, ...] = (0.0, 0.25)
    """Shares of the noise that evaluations have."""
    wanted: tuple[float, float] = (-math.inf, math.inf)
    """The least and the greatest return of policies that count as best, for medium ones."""
    finalists: int = 4
    """Policies that are measured again at the end: steady ones first, then by return."""
    final_episodes: int = 256
    environments: int = 64
    """Environments of each seed. The i-th explores with i/(n-1) of the noise."""
    updates: int = 32
    """Gradient steps after each step of all environments."""
    start_noise: float = 1.0
    """Spread of the states that episodes start in, as a multiple of the task's own."""
    threads: int = 8
    """Threads of the physics, and as many again of the evaluations."""
    memory: int = 1_000_000
    """Transitions of each seed that are kept."""
    width: int = 256
    batch_size: int = 256
    gamma: float = 0.99
    rate: float = 3e-4
    temperature: tuple[float, ...] = (1.0,)
    """Weight of the entropy at the start."""
    target_rate: float = 0.005
    """Share of the critics in their targets' running average."""
    average_rate: float = 5e-4
    """Share of the policy in its running average."""
    warm_up: int = 10_000
    """Steps of each seed before the first gradient step: random actions, or those of --begin."""
    pace: tuple[float, ...] = (1.0,)
    """Factor of the rate of the policy and the temperature. A policy that begins with a file needs
    0.1 or so: its critics are new, and a fast policy leaves the states that they know."""
    critics_first: int = 0
    """Gradient steps of the critics alone, before the policy and the temperature move."""


class Learner(NamedTuple):
    """All that a gradient step changes."""

    actor: Net
    critics: Net
    """Two critics, stacked."""
    log_temperature: jax.Array
    targets: Net
    average: Net
    """The running average of the actor, which is the policy that is kept."""
    optimiser: Any


class Transition(NamedTuple):
    s: Any
    a: Any
    reward: Any
    ended: Any
    s_next: Any


class Draw(NamedTuple):
    """The random numbers of a gradient step."""

    rows: Any
    now: Any
    after: Any


# ---- Networks ----


def make_net(key: jax.Array, *sizes: int) -> Net:
    pairs = list(pairwise(sizes))
    keys = jax.random.split(key, len(pairs))
    bounds = [1 / math.sqrt(inputs) for inputs, _ in pairs]
    return [
        (jax.random.uniform(k, pair, minval=-b, maxval=b), jnp.zeros(pair[1]))
        for k, pair, b in zip(keys, pairs, bounds, strict=True)
    ]


def read_net(file: str) -> Net:
    with np.load(file, allow_pickle=False) as arrays:
        return [(arrays[f"w{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]


def apply_net(net: Net, x: Any, numbers: Any = jnp) -> Any:
    """The outputs of a network, or of stacked ones. `numbers` is NumPy or JAX's NumPy."""
    *hidden, (weights, bias) = net
    for w, b in hidden:
        x = numbers.maximum(x @ w + b[..., None, :], 0)
    return x @ weights + bias[..., None, :]


def choose(actor: Net, s: Any, normal: Any, numbers: Any = jnp) -> tuple[Any, Any]:
    """The actions' values before tanh, with this noise, and their log_std."""
    mean, log_std = numbers.split(apply_net(actor, s, numbers), 2, axis=-1)
    log_std = numbers.clip(log_std, *LOG_STD)
    return mean + numbers.exp(log_std) * normal, log_std


def sample(actor: Net, s: jax.Array, normal: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions a = tanh(u) with this noise in u, and their log π(a|s)."""
    u, log_std = choose(actor, s, normal)
    log_normal = -0.5 * normal**2 - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))  # log(1 - tanh(u)²), stably
    return jnp.tanh(u), (log_normal - log_slope).sum(axis=-1)


def values(critics: Net, s: jax.Array, a: jax.Array) -> jax.Array:
    """The values of both critics, in two rows."""
    return apply_net(critics, jnp.concatenate([s, a], axis=-1))[..., 0]


# ---- Learning ----


def begin(settings: Settings, seed: int, file: str, temperature: float) -> Learner:
    states, actions = _sizes(settings)
    k_actor, *k_critics = jax.random.split(jax.random.key(seed), 3)
    layers = settings.width, settings.width
    actor = make_net(k_actor, states, *layers, 2 * actions)
    if file:
        actor = jax.tree.map(jnp.asarray, read_net(file))
    critics = _stack([make_net(k, states + actions, *layers, 1) for k in k_critics])
    learned = (actor, critics, jnp.float32(math.log(temperature)))
    return Learner(*learned, critics, actor, _adam(settings).init(learned))


def improve(
    settings: Settings, learner: Learner, batch: Transition, draw: Draw, pace: jax.Array
) -> Learner:
    """Take one gradient step, which is `pace` times as long for the actor and temperature."""
    temperature = jnp.exp(learner.log_temperature)
    a_next, log_next = sample(learner.actor, batch.s_next, draw.after)
    follows = values(learner.targets, batch.s_next, a_next).min(axis=0) - temperature * log_next
    wanted = batch.reward + settings.gamma * (1 - batch.ended) * follows

    def loss(learned: tuple[Net, Net, jax.Array]) -> jax.Array:
        actor, critics, log_temperature = learned
        errors = values(critics, batch.s, batch.a) - wanted
        a, log_prob = sample(actor, batch.s, draw.now)
        gain = values(jax.lax.stop_gradient(critics), batch.s, a).min(axis=0)
        # The temperature rises while the entropy is below minus the number of actions.
        surplus = jax.lax.stop_gradient(log_prob).mean() - a.shape[-1]
        lost = (temperature * log_prob - gain).mean() - log_temperature * surplus
        return (errors**2).mean(axis=1).sum() + lost

    learned = learner[:3]
    changes: Any
    changes, optimiser = _adam(settings).update(jax.grad(loss)(learned), learner.optimiser)
    of_actor, of_temperature = jax.tree.map(lambda x: pace * x, changes[::2])
    moved: Any = optax.apply_updates(learned, (of_actor, changes[1], of_temperature))
    actor, critics, log_temperature = moved
    targets: Any = optax.incremental_update(critics, learner.targets, settings.target_rate)
    average: Any = optax.incremental_update(actor, learner.average, settings.average_rate)
    return Learner(actor, critics, log_temperature, targets, average, optimiser)


@partial(jax.jit, static_argnames="settings")
def improve_often(
    settings: Settings,
    learners: Learner,
    memory: jax.Array,
    size: jax.Array,
    pace: jax.Array,
    key: jax.Array,
) -> Learner:
    """Take gradient steps of all learners, on batches from the first rows of their memories."""

    def one(learner: Learner, memory: jax.Array, pace: jax.Array, key: jax.Array) -> Learner:
        # Random numbers are drawn before the loop: inside, each would cost the time of a layer.
        k_rows, k_now, k_after = jax.random.split(key, 3)
        shape = settings.updates, settings.batch_size
        noise = (*shape, _sizes(settings)[1])
        rows = jax.random.randint(k_rows, shape, 0, size)
        draws = Draw(rows, jax.random.normal(k_now, noise), jax.random.normal(k_after, noise))

        def once(learner: Learner, draw: Draw) -> tuple[Learner, None]:
            batch = unpack(settings, memory[draw.rows])
            return improve(settings, learner, batch, draw, pace), None

        return jax.lax.scan(once, learner, draws)[0]

    return jax.vmap(one)(learners, memory, pace, jax.random.split(key, len(settings.seeds)))


@partial(jax.jit, donate_argnums=0)
def remember(memory: jax.Array, rows: jax.Array, start: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(memory, rows, start, 1)


def unpack(settings: Settings, rows: jax.Array) -> Transition:
    """Transitions from rows of the memory, in which the arrays lie side by side."""
    states, actions = _sizes(settings)
    ends = np.cumsum([states, actions, 1, 1])
    s, a, reward, ended, s_next = jnp.split(rows, ends, axis=-1)
    return Transition(s, a, reward[..., 0], ended[..., 0], s_next)


@partial(jax.jit, static_argnames="settings")
def act(
    settings: Settings, actors: Net, s: jax.Array, key: jax.Array, blind: jax.Array
) -> jax.Array:
    """The actions of all environments: uniform ones for the learners that are blind."""
    count, n, actions = len(settings.seeds), settings.environments, _sizes(settings)[1]
    shares = jnp.linspace(1.0 if n == 1 else 0.0, 1.0, n)[:, None]
    normal = shares * jax.random.normal(key, (count, n, actions))
    chosen = jnp.tanh(jax.vmap(choose)(actors, s, normal)[0])
    uniform = jax.random.uniform(key, chosen.shape, minval=-1, maxval=1)
    return jnp.where(blind[:, None, None], uniform, chosen)


# ---- The loop ----


class Training:
    """The learners, their environments and what they remember."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.count = settings, len(settings.seeds)
        files = _each(settings.begin, self.count)
        each = settings.seeds, files, _each(settings.temperature, self.count)
        self.learners: Learner = _stack([begin(settings, *x) for x in zip(*each, strict=True)])
        self.begun = np.array([bool(file) for file in files])
        self.fall = np.array(_each(settings.fall, self.count))[:, None]
        self.high = np.array(_each(settings.high, self.count))[:, None]
        self.pace = np.array(_each(settings.pace, self.count))
        self.key = jax.random.key(settings.seeds[0])
        self.step, self.updates, n = 0, 0, settings.environments
        self.robots = Robots(
            settings.task,
            self.count * n,
            settings.seeds[0],
            threads=settings.threads,
            start_noise=settings.start_noise,
        )
        states, actions = _sizes(settings)
        self.room = settings.memory // n * n
        self.memory = jnp.zeros((self.count, self.room, 2 * states + actions + 2))

    def advance(self) -> None:
        """Take a step in all environments while the learners take gradient steps."""
        settings = self.settings
        self.key, k_act, k_learn = jax.random.split(self.key, 3)
        learning = self.step >= settings.warm_up
        s = self._by_learner(self.robots.observe())
        blind = jnp.asarray(~self.begun & (not learning))
        a = np.asarray(act(settings, self.learners.actor, s, k_act, blind))
        if learning:  # while the environments take their steps
            size = jnp.int32(min(self.step, self.room))
            pace = jnp.float32(self.pace * (self.updates >= settings.critics_first))
            self.learners = improve_often(settings, self.learners, self.memory, size, pace, k_learn)
            self.updates += settings.updates
        rows = self._play(s, a)
        self.memory = remember(self.memory, rows, jnp.int32(self.step % self.room))
        self.step += settings.environments

    def describe(self) -> str:
        temperatures = np.exp(self.learners.log_temperature).round(4).tolist()
        return f"{self.step} steps, {self.updates} updates, temperatures {temperatures}"

    def _play(self, s: np.ndarray, a: np.ndarray) -> np.ndarray:
        moment = self.robots.step(a.reshape(-1, a.shape[-1]))
        after, reward, fell, _ = (self._by_learner(x) for x in moment)
        reward = reward - self.fall * fell
        if self.settings.task == "ant":
            reward = reward - self.high * np.maximum(after[..., 0] - FREE_HEIGHT, 0)
        return np.concatenate([s, a, reward[..., None], fell[..., None], after], axis=-1)

    def _by_learner(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.count, -1, *x.shape[1:]).astype(np.float32)


def train(settings: Settings) -> None:
    with ThreadPoolExecutor(1) as evaluator:
        finish(settings, learn(settings, evaluator))


def learn(settings: Settings, evaluator: ThreadPoolExecutor) -> list[Future[list[dict[str, Any]]]]:
    """Learn until the time is over, and return the evaluations, some of which may be under way."""
    started, due, last = time.monotonic(), settings.every, False
    training, kept = Training(settings), []
    while not last:
        training.advance()
        passed = time.monotonic() - started
        last = passed > 60 * settings.minutes or training.step >= settings.steps
        if passed >= due or last:
            due += settings.every
            print(f"{passed:.0f} s: {training.describe()}", flush=True)
            kept.append(evaluator.submit(keep, settings, training.learners, training.step))
    return kept


def keep(settings: Settings, learners: Learner, step: int) -> list[dict[str, Any]]:
    """Write the policies, and return what their episodes are like."""
    average: Any = jax.tree.map(np.asarray, learners.average)
    actors = [jax.tree.map(lambda x, i=i: x[i], average) for i in range(len(settings.seeds))]
    names = [f"{seed}-{step}" for seed in settings.seeds]
    for name, actor in zip(names, actors, strict=True):
        with atomic(settings.out / f"{name}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **named(actor))
    pairs = [(i, noise) for i in range(len(actors)) for noise in settings.noises]
    seen = judge(settings, [actors[i] for i, _ in pairs], [x for _, x in pairs], settings.episodes)
    rows = [{"policy": names[i], **row} for (i, _), row in zip(pairs, seen, strict=True)]
    for row in rows:
        print(row, flush=True)
    return rows


def finish(settings: Settings, kept: list[Future[list[dict[str, Any]]]]) -> None:
    """Write the log, and measure the best policies again."""
    rows = [row for future in kept for row in future.result()]
    write_csv(settings.out / "log.csv", rows)
    low, high = settings.wanted
    able = [row for row in rows if low <= row["return"] <= high]
    best = sorted(able, key=lambda row: (row["fell"] > 0.02, -row["return"]))[: settings.finalists]
    if not best:
        return
    actors = [read_net(str(settings.out / f"{row['policy']}.npz")) for row in best]
    seen = judge(settings, actors, [row["noise"] for row in best], settings.final_episodes)
    finals = [{"policy": row["policy"], **new} for row, new in zip(best, seen, strict=True)]
    write_csv(settings.out / "best.csv", finals)
    for row in finals:
        print("best", row, flush=True)


def judge(
    settings: Settings, actors: list[Net], noises: list[float], episodes: int
) -> list[dict[str, Any]]:
    """The returns of policies, and the share of their episodes that terminated."""
    stacked: Any = jax.tree.map(lambda *x: np.stack(x), *actors)
    returns, fell = play(settings, stacked, np.array(noises, np.float32), episodes)
    return [
        {
            "noise": noise,
            "return": round(float(r.mean()), 1),
            "deviation": round(float(r.std()), 1),
            "fell": round(float(f.mean()), 4),
        }
        for noise, r, f in zip(noises, returns, fell, strict=True)
    ]


def play(
    settings: Settings, actors: Net, noises: np.ndarray, episodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The return of each episode and whether it terminated, in a row for each of the actors."""
    random, actions = np.random.default_rng(0), _sizes(settings)[1]
    shape = len(noises), episodes
    robots = Robots(settings.task, len(noises) * episodes, 0, threads=settings.threads)
    returns, fallen = np.zeros(shape), np.zeros(shape, bool)
    for _ in range(TASKS[settings.task].max_steps):
        s = robots.observe().reshape(*shape, -1).astype(np.float32)
        normal = random.standard_normal((*shape, actions), dtype=np.float32)
        u, _ = choose(actors, s, noises[:, None, None] * normal, np)
        moment = robots.step(np.tanh(u).reshape(-1, actions))
        returns += ~fallen * moment.reward.reshape(shape)
        fallen |= moment.fell.reshape(shape)
    return returns, fallen


def named(actor: Net) -> dict[str, Any]:
    """The arrays of a policy's file."""
    weights = {f"w{i}": np.asarray(w, np.float32) for i, (w, _) in enumerate(actor)}
    return weights | {f"b{i}": np.asarray(b, np.float32) for i, (_, b) in enumerate(actor)}


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def _each(given: tuple[Any, ...], count: int) -> list[Any]:
    """One value for each learner, from one for each or one for all."""
    if len(given) not in (1, count):
        raise SystemExit(f"{len(given)} values are given for {count} seeds: {given}")
    return list(given) * (count // len(given))


def _adam(settings: Settings) -> optax.GradientTransformation:
    return optax.adam(settings.rate)


def _sizes(settings: Settings) -> tuple[int, int]:
    spec = TASKS[settings.task]
    return spec.state_size, spec.action_size


if __name__ == "__main__":
    chosen = tyro.cli(Settings)
    if chosen.task not in ROBOTS:
        raise SystemExit(f"there is no task {chosen.task!r}, only {', '.join(ROBOTS)}")
    train(chosen)
