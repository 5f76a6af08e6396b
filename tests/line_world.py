"""A world on a line: x' = x + a/10. Episodes end at the goal, near 1, and at the pit, near -1."""

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box
from lobsdice.environments.learned import LearnedWorld
from lobsdice.policies.policy import Policy

SPACE = Box((-1.0,), (1.0,))
SAME = Normaliser(np.zeros(1, np.float32), np.ones(1, np.float32))
#: Where episodes end.
EDGE = 0.95


def walks(actions, starts, *, longest=40, noise=0.0, seed=0) -> Episodes:
    """Episodes with one action each, plus noise, until they end."""
    random = np.random.default_rng(seed)
    observations, taken, lengths, ended = [], [], [], []
    for action, x in zip(actions, starts, strict=True):
        states, chosen = [x], []
        while len(chosen) < longest and abs(states[-1]) < EDGE:
            chosen.append(float(np.clip(action + noise * random.normal(), -1, 1)))
            states.append(states[-1] + chosen[-1] / 10)
        observations += states
        taken += chosen
        lengths.append(len(chosen))
        ended.append(abs(states[-1]) >= EDGE)
    return Episodes.from_arrays(
        np.array(observations)[:, None],
        lengths=lengths,
        terminated=ended,
        actions=np.array(taken)[:, None],
        action_space=SPACE,
    )


def demonstrations() -> Episodes:
    """Five walks from near 0 to the goal."""
    return walks([0.8] * 5, [-0.1, -0.05, 0.0, 0.05, 0.1], noise=0.1, seed=1).without_actions()


def going(action: float) -> Policy:
    """The policy that always takes one action."""
    weights = (np.zeros((1, 4), np.float32), np.zeros((4, 2), np.float32))
    biases = (
        np.zeros(4, np.float32),
        np.array([np.arctanh(np.clip(action, -0.999, 0.999)), -5], np.float32),
    )
    return Policy(weights, biases, SAME, SPACE)


def made_world(*, members: int = 3, unsure_from: float = np.inf, starts=(0.0,)) -> LearnedWorld:
    """The true world as an ensemble, whose members disagree where x is above `unsure_from`."""
    bend = 0.0 if np.isinf(unsure_from) else 1.0
    first = np.tile(np.array([[0, 0, 1], [1, -1, 0]], np.float32), (members, 1, 1))
    shift = np.tile(np.array([0, 0, -unsure_from if bend else 0], np.float32), (members, 1))
    last = np.zeros((members, 3, 3), np.float32)
    last[:, 0, 1], last[:, 1, 1] = 1, -1
    last[:, 2, 1] = bend * 10 * np.arange(members)
    bias = np.tile(np.array([0, 0, -5], np.float32), (members, 1))
    edges = np.tile(np.array([[1, -1]], np.float32), (members, 1, 1))
    end_shift = np.full((members, 2), -EDGE, np.float32)
    steep = np.full((members, 2, 1), 2000, np.float32)
    return LearnedWorld(
        move=((first, shift), (last, bias)),
        end=((edges, end_shift), (steep, np.full((members, 1), -20, np.float32))),
        normaliser=SAME,
        action_space=SPACE,
        move_scale=np.array([0.1], np.float32),
        low=np.array([-1.2], np.float32),
        high=np.array([1.2], np.float32),
        starts=np.array(starts, np.float32)[:, None],
        demonstrated=np.linspace(0, 0.9, 10, dtype=np.float32)[:, None],
        inferred=np.full((10, 1), 0.8, np.float32),
        end_mass=1.0,
        limit=0.1,
        about={"quality": {"unexplained": 0.0, "in_interval": 0.9}, "horizon": 40},
    )
