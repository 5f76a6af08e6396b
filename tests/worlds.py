"""Small worlds that several tests train on."""

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from lobsdice import tabular
from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.prepare import (
    Data,
    Ends,
    look_ahead,
    observations,
    prepare,
    transitions,
)
from lobsdice.data.spaces import Discrete
from lobsdice.data.steps import Observations, Steps, Transitions, store
from lobsdice.training.engine import State, start
from lobsdice.training.fleet import Fleet


def noise(
    steps: int,
    *,
    width: int = 3,
    actions: int = 2,
    discrete: bool = False,
    ended: float = 0.5,
    seed: int = 0,
) -> Episodes:
    """Episodes of ten steps with nothing to learn in them, of which a share terminated."""
    rng = np.random.default_rng(seed)
    taken = rng.integers(0, actions, steps) if discrete else rng.uniform(-1, 1, (steps, actions))
    return Episodes.from_arrays(
        rng.normal(size=(steps + steps // 10, width)),
        lengths=[10] * (steps // 10),
        actions=taken,
        terminated=rng.random(steps // 10) < ended,
        rewards=rng.normal(size=steps),
    )


def noise_data(*, discrete: bool = False, seed: int = 0, ended: float = 0.5, **options) -> Data:
    """Data that any algorithm can take steps on."""
    expert = noise(40, discrete=discrete, seed=2 * seed + 1, ended=ended)
    offline = noise(80, discrete=discrete, seed=2 * seed, ended=ended)
    return prepare(expert, offline, labelled=expert, **options)


def beginning(fleet: Fleet) -> State:
    """What `fleet.begin()` gives, without compiling a program for it."""
    algorithm, data = fleet.members[0].algorithm, fleet.datas[0]
    return jax.vmap(lambda key: start(algorithm, key, data.state_size, data.action_space))(
        fleet.keys()
    )


class World(NamedTuple):
    """A finite MDP, what is seen in it, and one-hot data that shows exactly that.

    The tables are the data's own frequencies, so nothing differs between them but the learner.
    """

    mdp: tabular.MDP
    d_expert: np.ndarray  # [s, s']
    d_offline: np.ndarray  # [s, a]
    d_labelled: np.ndarray  # [s, a] of the expert, in demonstrations with actions
    data: Data
    final: tuple[int, ...] = ()  # states in which episodes end

    @property
    def d_pairs(self) -> np.ndarray:
        """d^I[s, s']."""
        return tabular.pair_occupancy(self.mdp, self.d_offline)

    @property
    def log_ratio(self) -> np.ndarray:
        """r[s, s'] = log d^E / d^I, and zero where there is no data."""
        seen = self.d_pairs > 0
        return np.log(np.where(seen, self.d_expert, 1) / np.where(seen, self.d_pairs, 1))


def make_world(
    seed: int = 0,
    *,
    states: int = 6,
    actions: int = 2,
    gamma: float = 0.9,
    deterministic: bool = False,
    merging: bool = False,
    realisable: bool = False,
    rows: int = 4000,
) -> World:
    """A random MDP, offline data that shows all of it, and an expert who cannot be matched there.

    The expert starts elsewhere and moves by other chances to the same states, so that what can be
    had is a compromise, in which the flow constraint has its say; unless it is `realisable`, and
    lives in the same MDP. With `deterministic` transitions no two actions lead from a state to the
    same one; with `merging` ones, deterministic too, two always do.
    """
    rng = np.random.default_rng(seed)
    if deterministic or merging:
        order = np.argsort(rng.random((states, states)), axis=1)[:, :actions]
        order[:, 1] = order[:, 0] if merging else order[:, 1]
        here = there = np.eye(states)[order]
    else:
        here, there = rng.dirichlet(0.5 * np.ones(states), size=(2, states, actions))
    behaviour = 0.5 * rng.dirichlet(np.ones(actions), size=states) + 0.5 / actions
    initial = rng.dirichlet(3 * np.ones(states))
    d_offline = tabular.occupancy(tabular.MDP(here, initial, 0.9), behaviour)
    expert = 0.8 * rng.dirichlet(0.3 * np.ones(actions), size=states) + 0.2 / actions
    elsewhere = tabular.MDP(there, 0.8 * np.eye(states)[0] + 0.2 / states, 0.8)
    if realisable:
        elsewhere = tabular.MDP(here, initial, gamma)
    taken = tabular.occupancy(elsewhere, expert)[..., None] * elsewhere.transition
    # Rounded up: every transition that can happen does, and no log ratio is infinite.
    tables = (d_offline[..., None] * here, taken.sum(1), taken, initial)
    counts, shown, labelled, starts = (np.ceil(rows * x).astype(int) for x in tables)
    d_offline, d_labelled = (x.sum(-1) / x.sum() for x in (counts, labelled))
    data = one_hot_data(counts, shown, labelled, starts)
    mdp = tabular.from_counts(counts, starts, gamma)
    return World(mdp, shown / shown.sum(), d_offline, d_labelled, data)


def one_hot_data(
    offline: np.ndarray, expert: np.ndarray, labelled: np.ndarray, initial: np.ndarray
) -> Data:
    """Rows as often as counted: offline and labelled [s, a, s'], expert[s, s'], initial[s]."""
    states, actions, _ = offline.shape
    eye = np.eye(states, dtype=np.float32)
    pair = (np.repeat(i.ravel(), expert.ravel()) for i in np.indices(expert.shape))
    return Data(
        init=eye[np.repeat(np.arange(states), initial)],
        expert=store(Observations(*(eye[i] for i in pair))),
        offline=_one_hot_transitions(offline),
        normaliser=Normaliser(np.zeros(states, np.float32), np.ones(states, np.float32)),
        action_space=Discrete(actions),
        source=np.zeros(offline.sum(), np.int64),
        source_names=("offline",),
        labelled=_one_hot_transitions(labelled),
    )


def _one_hot_transitions(counts: np.ndarray) -> Steps:
    s, a, s_next = (np.repeat(i.ravel(), counts.ravel()) for i in np.indices(counts.shape))
    eye = np.eye(len(counts), dtype=np.float32)
    return store(Transitions(eye[s], a, eye[s_next]))


# ---- Worlds that end ----

#: The final states of a grid of three by three: a goal in the far corner, and two pits.
GOAL, PITS = 8, (2, 6)
FINAL = (*PITS, GOAL)


def ending_world(terminal: str, *, gamma: float = 0.9, slip: float = 0.0, seed: int = 0) -> World:
    """Recorded episodes on a small grid, and what `terminal` makes of them.

    A share `slip` of the logged moves is random. Demonstrations mostly avoid the pits, and show
    each pair that the logs show. They begin elsewhere and never slip, so that they cannot be
    matched, and the flow constraint has its say. Some episodes are truncated.
    """
    rng = np.random.default_rng(seed)
    towards_goal = np.tile([0.4, 0.1, 0.4, 0.1], (9, 1))
    towards_goal[[1, 3]] = [[0.1, 0.1, 0.7, 0.1], [0.7, 0.1, 0.1, 0.1]]
    near_goal = np.array([1, 1, 0, 1, 3, 7, 0, 7, 0]) / 20
    expert = record(_grid_moves(0.0), near_goal, towards_goal, 1500, rng)
    anything = np.full((9, 4), 0.25)
    offline = record(_grid_moves(slip), np.eye(9)[[0, 1, 3]].mean(0), anything, 1500, rng)
    inputs = tabular.estimate(
        expert, offline, states=9, gamma=gamma, terminal=terminal, rows="uniform"
    )
    assert inputs.d_labelled is not None
    data = _one_hot_episodes(expert, offline, states=9)
    world = World(*inputs[:3], inputs.d_labelled, data, FINAL)
    assert np.isfinite(world.log_ratio).all()
    return world


def _grid_moves(slip: float) -> np.ndarray:
    """T[s, a, s'] of the moves right, left, down and up."""
    y, x = np.divmod(np.arange(9), 3)
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))
    to = [3 * np.clip(y + dy, 0, 2) + np.clip(x + dx, 0, 2) for dy, dx in moves]
    sure = np.eye(9)[np.stack(to, axis=1)]
    return (1 - slip) * sure + slip * sure.mean(1, keepdims=True)


def record(
    transition: np.ndarray,
    initial: np.ndarray,
    policy: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> Episodes:
    """Episodes of at most twelve steps."""
    steps, final = 12, np.isin(np.arange(len(policy)), FINAL)
    chances = np.cumsum((policy[..., None] * transition).reshape(len(policy), -1), axis=1)
    states = [rng.choice(len(policy), count, p=initial)]
    taken = []
    for _ in range(steps):
        chosen = (rng.random((count, 1)) > chances[states[-1]]).sum(1)
        action, state = np.divmod(np.minimum(chosen, chances.shape[1] - 1), len(policy))
        taken.append(action)
        states.append(state)
    s, a = np.stack(states, axis=1), np.stack(taken, axis=1)
    ended = final[s[:, 1:]]
    length = np.where(ended.any(1), ended.argmax(1) + 1, steps)
    return Episodes.from_arrays(
        s[np.arange(steps + 1) <= length[:, None]][:, None],
        lengths=length,
        actions=a[np.arange(steps) < length[:, None]],
        action_space=Discrete(policy.shape[1]),
        terminated=ended.any(1),
    )


def _one_hot_episodes(expert: Episodes, offline: Episodes, *, states: int) -> Data:
    """The data of recorded episodes whose observations are numbers of states."""
    eye = np.eye(states, dtype=np.float32)
    expert, offline = (
        replace(x, observations=eye[x.observations[:, 0].astype(int)]) for x in (expert, offline)
    )
    assert offline.action_space is not None
    shown, logged = (x.observations[x.ends[x.terminated]] for x in (expert, offline))
    return Data(
        init=offline.observations[offline.starts],
        expert=observations(expert),
        offline=transitions(offline),
        normaliser=Normaliser(np.zeros(states, np.float32), np.ones(states, np.float32)),
        action_space=offline.action_space,
        source=np.zeros(offline.steps, np.int64),
        source_names=("offline",),
        labelled=transitions(expert),
        ends=Ends(shown, logged, np.zeros(len(logged), np.int64), shown),
        ahead=look_ahead(expert, offline),
    )
