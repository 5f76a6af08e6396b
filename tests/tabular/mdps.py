"""Small MDPs to solve, and an independent conic solver to compare with."""

import warnings
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from lobsdice import tabular


class World(NamedTuple):
    mdp: tabular.MDP
    d_expert: np.ndarray
    d_offline: np.ndarray
    expert: np.ndarray
    behaviour: np.ndarray


def make_world(seed=0, states=6, actions=3, gamma=0.9, density=0.5, deterministic=False):
    """A random MDP with the occupancies of two random policies."""
    rng = np.random.default_rng(seed)
    if deterministic:
        # Actions have different successors, so (s, s') reveals the action.
        order = np.argsort(rng.random((states, states)), axis=1)[:, :actions]
        transition = np.eye(states)[order]
    else:
        mass = rng.exponential(size=(states, actions, states))
        mass *= rng.random(mass.shape) < density
        mass[..., 0] += 1e-3 * (mass.sum(-1) == 0)
        transition = mass / mass.sum(-1, keepdims=True)
    initial = rng.dirichlet(np.ones(states))
    mdp = tabular.MDP(transition, initial, gamma)
    expert = rng.dirichlet(0.3 * np.ones(actions), size=states)
    behaviour = rng.dirichlet(np.ones(actions), size=states)
    d_expert = tabular.pair_occupancy(mdp, tabular.occupancy(mdp, expert))
    return World(mdp, d_expert, tabular.occupancy(mdp, behaviour), expert, behaviour)


def sparse(mdp: tabular.MDP) -> tabular.MDP:
    """The same MDP with sparse transitions."""
    table = sp.csr_matrix(mdp.transition.reshape(-1, mdp.states))
    return tabular.MDP(table, mdp.initial, mdp.gamma)


def relative_entropy(p, q):
    """Σ p log(p/q)."""
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


def conic(world: World, objective, also=lambda d: []):
    """min objective(d, d̄) over stationary distributions, by cvxpy and Clarabel.

    `also` gives more constraints.
    """
    mdp = world.mdp
    size, actions = mdp.states, mdp.actions
    d = cp.Variable((size, actions), nonneg=True)
    inflow = sum(mdp.transition[:, a].T @ d[:, a] for a in range(actions))
    pairs = sum(cp.multiply(mdp.transition[:, a], d[:, a][:, None]) for a in range(actions))
    flow = cp.sum(d, axis=1) == (1 - mdp.gamma) * mdp.initial + mdp.gamma * inflow
    constraints: Any = [flow, cp.sum(d) == 1, *also(d)]
    problem = cp.Problem(cp.Minimize(objective(d, pairs)), constraints)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    with warnings.catch_warnings():
        # On some processors the last digit that is asked for is not reached. Then Clarabel warns;
        # whether its numbers are good enough is for the comparison to say.
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        value: Any = problem.solve(cp.CLARABEL, **tight)
    return float(value), np.asarray(d.value)


def divergence(p, q):
    """Σ p log(p/q) for cvxpy, over the entries with q > 0; elsewhere p is zero anyway."""
    seen = np.argwhere(q > 0)
    p = cp.hstack([p[i, j] for i, j in seen])
    return cp.sum(cp.rel_entr(p, q[q > 0]))


class Task(NamedTuple):
    """An MDP with final states, an expert who reaches the goal among them, and the logs' policy."""

    mdp: tabular.MDP
    final: list[int]
    goal: int
    expert: np.ndarray
    behaviour: np.ndarray

    def world(self, terminal: str) -> World:
        """The world in which `terminal` says what follows a final state."""
        mdp = tabular.with_ends(self.mdp, self.final, terminal)
        d_expert = tabular.pair_occupancy(mdp, tabular.occupancy(mdp, self.expert))
        logs = tabular.occupancy(mdp, self.behaviour)
        return World(mdp, d_expert, logs, self.expert, self.behaviour)

    def success(self, policy) -> float:
        """The probability of reaching the goal at last."""
        steps = np.einsum("sa,sat->st", policy, self.world("stay").mdp.transition)
        return float((self.mdp.initial @ np.linalg.matrix_power(steps, 2**16))[self.goal])


def goal_and_pits(slip=0.0, gamma=0.95, noise=0.0) -> Task:
    """A 4x4 grid with a goal in the far corner and two pits.

    A share `slip` of the moves, and a share `noise` of the expert's actions, is random.
    """
    side, goal, final = 4, 15, [15, 5, 11]
    y, x = np.divmod(np.arange(side**2), side)
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))
    clip = [np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1) for dy, dx in moves]
    sure = np.eye(side**2)[np.stack(clip, axis=1)]
    transition = (1 - slip) * sure + slip * sure.mean(1, keepdims=True)
    mdp = tabular.MDP(transition, np.eye(side**2)[0], gamma)
    discounted = tabular.with_ends(tabular.MDP(transition, mdp.initial, 0.95), final, "stay")
    reward = np.repeat(np.eye(side**2)[goal][:, None], 4, axis=1)
    best = tabular.greedy(tabular.optimal_action_value(discounted, reward))
    return Task(mdp, final, goal, (1 - noise) * best + noise / 4, 0.2 * best + 0.8 / 4)
