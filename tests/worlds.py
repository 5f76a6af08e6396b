"""Small worlds that several tests train on."""

from typing import NamedTuple

import jax
import numpy as np

from lobsdice import tabular
from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.prepare import Data, Observations, Transitions, prepare
from lobsdice.data.spaces import Discrete
from lobsdice.training.engine import State, start
from lobsdice.training.fleet import Fleet


def noise(steps: int, *, width: int = 3, actions: int = 2, discrete: bool = False, seed: int = 0):
    """Episodes of ten steps with nothing to learn in them."""
    rng = np.random.default_rng(seed)
    taken = rng.integers(0, actions, steps) if discrete else rng.uniform(-1, 1, (steps, actions))
    return Episodes.from_arrays(
        rng.normal(size=(steps + steps // 10, width)),
        lengths=[10] * (steps // 10),
        actions=taken,
        terminated=rng.random(steps // 10) < 0.5,
    )


def noise_data(*, discrete: bool = False, seed: int = 0, **options) -> Data:
    """Data that any algorithm can take steps on."""
    expert = noise(40, discrete=discrete, seed=2 * seed + 1)
    return prepare(expert, noise(80, discrete=discrete, seed=2 * seed), labelled=expert, **options)


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
        expert=Observations(*(eye[i] for i in pair)),
        offline=_one_hot_transitions(offline),
        normaliser=Normaliser(np.zeros(states, np.float32), np.ones(states, np.float32)),
        action_space=Discrete(actions),
        source=np.zeros(offline.sum(), np.int64),
        source_names=("offline",),
        labelled=_one_hot_transitions(labelled),
    )


def _one_hot_transitions(counts: np.ndarray) -> Transitions:
    s, a, s_next = (np.repeat(i.ravel(), counts.ravel()) for i in np.indices(counts.shape))
    eye = np.eye(len(counts), dtype=np.float32)
    return Transitions(eye[s], a, eye[s_next])
