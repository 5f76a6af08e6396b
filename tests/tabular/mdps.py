"""Small MDPs to solve, and an independent conic solver to compare with."""

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


def conic(world: World, objective):
    """min objective(d, d̄, cp) over stationary distributions, by cvxpy and Clarabel."""
    mdp = world.mdp
    size, actions = mdp.states, mdp.actions
    d = cp.Variable((size, actions), nonneg=True)
    inflow = sum(mdp.transition[:, a].T @ d[:, a] for a in range(actions))
    pairs = sum(cp.multiply(mdp.transition[:, a], d[:, a][:, None]) for a in range(actions))
    flow = cp.sum(d, axis=1) == (1 - mdp.gamma) * mdp.initial + mdp.gamma * inflow
    constraints: Any = [flow, cp.sum(d) == 1]
    value: Any = cp.Problem(cp.Minimize(objective(d, pairs)), constraints).solve(cp.CLARABEL)
    return float(value), np.asarray(d.value)


def divergence(p, q):
    """Σ p log(p/q) for cvxpy, over the entries with q > 0; elsewhere p is zero anyway."""
    seen = np.argwhere(q > 0)
    p = cp.hstack([p[i, j] for i, j in seen])
    return cp.sum(cp.rel_entr(p, q[q > 0]))
