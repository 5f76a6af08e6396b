"""Tabular problems solved per second, in comparison with cvxpy + Clarabel.

The problems are those of the paper's random MDPs: 20 states, 4 actions, estimated from offline
trajectories. Run `python benchmarks/tabular_speed.py`; it prints a table.
"""

import time
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from lobsdice import tabular

STATES, ACTIONS, GAMMA, MIX = 20, 4, 0.95, 1e-3


def random_transitions(rng, count):
    """Four successors each, (1-β) one-hot + β Dirichlet, with the paper's values of β in turn."""
    beta = np.resize([0.01, 0.1, 1.0], count)[:, None, None, None]
    one_hot = np.eye(4)[rng.integers(4, size=(count, STATES, ACTIONS))]
    mixed = (1 - beta) * one_hot + beta * rng.dirichlet(np.ones(4), (count, STATES, ACTIONS))
    successors = np.argsort(rng.random((count, STATES, ACTIONS, STATES)), axis=-1)[..., :4]
    transition = np.zeros((count, STATES, ACTIONS, STATES))
    np.put_along_axis(transition, successors, mixed, axis=-1)
    return transition


def instances(count, seed=0):
    """MDPs estimated from 1 to 10,000 trajectories, with their d^E(s,s') and d^I(s,a)."""
    rng = np.random.default_rng(seed)
    initial = np.tile(np.eye(STATES)[0], (count, 1))
    truth = tabular.MDP(random_transitions(rng, count), initial, GAMMA)
    uniform = np.full((count, STATES, ACTIONS), 1 / ACTIONS)
    d_offline = tabular.occupancy(truth, uniform)
    samples = np.resize(50 * np.array([1, 3, 10, 30, 100, 300, 1000, 3000, 10000]), count)
    joint = (d_offline[..., None] * truth.transition).reshape(count, -1)
    joint /= joint.sum(1, keepdims=True)
    counts = np.stack([rng.multinomial(n, p) for n, p in zip(samples, joint, strict=True)])
    counts = counts.reshape(truth.transition.shape).astype(float)
    expert = rng.dirichlet(0.2 * np.ones(ACTIONS), (count, STATES))
    d_expert = tabular.pair_occupancy(truth, tabular.occupancy(truth, expert))
    mdp = tabular.from_counts(counts, initial, GAMMA)
    return mdp, d_expert, counts.sum(3) / counts.sum((1, 2, 3))[:, None, None]


def seconds(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def conic(transition, initial, d_expert, d_offline, alpha):
    """The objective of LobsDICE by cvxpy + Clarabel on sparse matrices, and Clarabel's own time."""
    seen = np.flatnonzero(d_offline)
    s = seen // ACTIONS
    table = transition.reshape(-1, STATES)[seen]
    q = d_offline.ravel()[seen]
    blended = (1 - MIX) * d_expert + MIX * np.einsum("sa,sat->st", d_offline, transition)
    rows, columns = np.nonzero(table)
    pair, index = np.unique(s[rows] * STATES + columns, return_inverse=True)
    to_pairs = sp.csr_matrix((table[rows, columns], (index, rows)), shape=(pair.size, seen.size))
    out = sp.csr_matrix((np.ones(seen.size), (s, np.arange(seen.size))), shape=(STATES, seen.size))
    d = cp.Variable(seen.size, nonneg=True)
    pairs = cp.sum(cp.rel_entr(to_pairs @ d, blended.ravel()[pair]))
    constraints: Any = [(out - GAMMA * sp.csr_matrix(table.T)) @ d == (1 - GAMMA) * initial]
    problem = cp.Problem(cp.Minimize(pairs + alpha * cp.sum(cp.rel_entr(d, q))), constraints)
    value: Any = problem.solve(cp.CLARABEL)
    stats: Any = problem.solver_stats
    return float(value), stats.solve_time


def compare(alpha, count=18):
    """Mean seconds per problem of cvxpy and of Clarabel alone, and the largest disagreement."""
    # Only problems with all (s, a) in the data, so that no state is a dead end.
    mdp, d_expert, d_offline = instances(400, seed=1)
    full = np.flatnonzero((d_offline > 0).all((1, 2)))[:count]
    chosen = tabular.MDP(mdp.transition[full], mdp.initial[full], GAMMA)
    ours = tabular.lobsdice(chosen, d_expert[full], d_offline[full], alpha=alpha, mix=MIX)
    total, inside, apart = 0.0, 0.0, 0.0
    for i, row in enumerate(full):
        table, start = mdp.transition[row], mdp.initial[row]
        began = time.perf_counter()
        value, own = conic(table, start, d_expert[row], d_offline[row], alpha)
        taken = time.perf_counter() - began
        total, inside = total + taken, inside + own
        apart = max(apart, abs(value - ours.primal[i]))
    return total / len(full), inside / len(full), apart


def main():
    problems = instances(4096)
    methods = {
        "LobsDICE α=0.1": lambda p: tabular.lobsdice(*p, alpha=0.1, mix=MIX),
        "LobsDICE α=0.003": lambda p: tabular.lobsdice(*p, alpha=0.003, mix=MIX),
        "LobsDICE α=0.0001": lambda p: tabular.lobsdice(*p, alpha=1e-4, mix=MIX),
        "LobsDICE states α=0.1": lambda p: tabular.lobsdice_state(*p, alpha=0.1, mix=MIX),
        "OPOLO": lambda p: tabular.opolo(*p, mix=MIX),
        "SMODICE": lambda p: tabular.smodice(*p, mix=MIX),
        "DemoDICEfO α=0.1": lambda p: tabular.demodice_from_observation(*p, alpha=0.1, mix=MIX),
    }
    print(f"{'method':24}{'solves/s':>10}{'solved':>9}{'worst gap':>12}{'steps':>7}{'most':>6}")
    rates = {}
    for name, method in methods.items():
        method(problems)  # compiles
        taken, solution = seconds(lambda method=method: method(problems))
        rates[name] = len(solution.gap) / taken
        print(
            f"{name:24}{rates[name]:10.0f}{solution.converged.mean():9.2%}{solution.gap.max():12.1e}"
            f"{solution.steps.mean():7.1f}{solution.steps.max():6d}"
        )
    for alpha, name in ((0.1, "LobsDICE α=0.1"), (0.003, "LobsDICE α=0.003")):
        total, inside, apart = compare(alpha)
        print(
            f"cvxpy + Clarabel, α={alpha}: {1e3 * total:.1f} ms a solve ({1e3 * inside:.1f} ms in "
            f"Clarabel), objectives differ by at most {apart:.1e}; "
            f"ours is {rates[name] * total:.0f} times faster ({rates[name] * inside:.0f} times "
            "than Clarabel alone)"
        )


if __name__ == "__main__":
    main()
