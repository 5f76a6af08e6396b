"""Random MDPs and their experts, as in appendix I.1 of the paper.

Each (s, a) has four different successors, with the probabilities
(1-β) one-hot + β Dirichlet(1,1,1,1). The reward is 1 in one state: the one that gives s0 = 0 the
smallest optimal value. The expert is softmax(Q*/temperature). Its temperature is chosen such that
its value at s0 lies at a given point between the uniform policy's (0) and the optimal one's (1).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lobsdice.tabular import MDP, occupancy, optimal_action_value, pair_occupancy, softmax, value

SUCCESSORS = 4
#: Logarithms of the lowest and highest temperature that the expert may have.
COLDEST, HOTTEST = np.log(1e-6), np.log(1e3)
HALVINGS = 60

Floats = Float[np.ndarray, "..."]
Integers = Int[np.ndarray, "..."]


class Skeleton(NamedTuple):
    """The parts of a random MDP that do not depend on β."""

    successors: Integers  # [S, A, 4]
    one_hot: Floats  # [S, A, 4]
    dirichlet: Floats  # [S, A, 4]


class Instance(NamedTuple):
    """Random MDPs, one per row, with their experts."""

    successors: Integers  # [n, S, A, 4]
    probabilities: Floats  # [n, S, A, 4]
    mdp: MDP
    reward: Floats  # [n, S, A]
    expert: Floats  # the policy, [n, S, A]
    d_expert: Floats  # the true state-pair occupancy of the expert, [n, S, S]


def draw_skeleton(rng: np.random.Generator, states: int, actions: int) -> Skeleton:
    """Draw four different successors for each (s, a), and the two parts of their probabilities."""
    order = rng.random((states, actions, states)).argsort(-1)
    chosen = rng.integers(SUCCESSORS, size=(states, actions))
    dirichlet = rng.dirichlet(np.ones(SUCCESSORS), size=(states, actions))
    return Skeleton(order[..., :SUCCESSORS], np.eye(SUCCESSORS)[chosen], dirichlet)


def make_instances(
    skeletons: list[Skeleton], beta: float, *, gamma: float, optimality: float
) -> Instance:
    """The MDPs of some skeletons at one β, with their experts."""
    successors, one_hot, dirichlet = map(np.stack, zip(*skeletons, strict=True))
    probabilities = (1 - beta) * one_hot + beta * dirichlet
    mdp = MDP(spread(successors, probabilities), start(*successors.shape[:2]), gamma)
    reward = hardest_reward(mdp)
    expert = sharp_softmax(mdp, reward, optimality)
    d_expert = pair_occupancy(mdp, occupancy(mdp, expert))
    return Instance(successors, probabilities, mdp, reward, expert, d_expert)


def spread(successors: Integers, values: Floats) -> Floats:
    """Expand values at the four successors to values at all states, zero elsewhere."""
    states = successors.shape[-3]
    dense = np.zeros((*values.shape[:-1], states))
    np.put_along_axis(dense, np.broadcast_to(successors, values.shape), values, axis=-1)
    return dense


def start(count: int, states: int) -> Floats:
    """Initial distributions with all mass in s0 = 0."""
    return np.broadcast_to(np.eye(states)[0], (count, states))


def hardest_reward(mdp: MDP) -> Floats:
    """The reward R[n, s, a]: 1 in the state that minimises the optimal value of s0."""
    shape = (*mdp.initial.shape, mdp.actions)
    at_state = np.eye(mdp.states)[:, :, None] * np.ones(mdp.actions)
    best = np.stack(
        [
            optimal_action_value(mdp, np.broadcast_to(reward, shape))[:, 0].max(-1)
            for reward in at_state
        ],
        axis=-1,
    )
    # A state that cannot be reached has value 0, and no policy is better than another.
    return at_state[np.where(best > 0, best, np.inf).argmin(-1)]


def sharp_softmax(mdp: MDP, reward: Floats, optimality: float) -> Floats:
    """softmax(Q*/temperature) with V(s0) = optimality V*(s0) + (1 - optimality) V_uniform(s0)."""
    q = optimal_action_value(mdp, reward)
    uniform = np.full(q.shape, 1 / mdp.actions)
    best, worst = q[:, 0].max(-1), value(mdp, uniform, reward)[:, 0]
    target = optimality * best + (1 - optimality) * worst
    cold, hot = np.full(len(q), COLDEST), np.full(len(q), HOTTEST)
    for _ in range(HALVINGS):
        middle = (cold + hot) / 2
        policy = softmax(q, np.exp(middle)[:, None, None])
        good = value(mdp, policy, reward)[:, 0] >= target
        cold, hot = np.where(good, middle, cold), np.where(good, hot, middle)
    return softmax(q, np.exp(cold)[:, None, None])
