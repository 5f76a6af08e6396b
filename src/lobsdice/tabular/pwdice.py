"""PW-DICE on a finite MDP (Yan, Schwing, Wang, ICML 2024): its linear program, solved exactly.

    min_{d,Π}  Σ Π(s,t) c(s,t)   over stationary distributions d within the offline data
               such that Π ≥ 0,  Σ_t Π(s,t) = d(s),  Σ_s Π(s,t) = d^E(t)

The minimum is the Wasserstein distance of the states d(s) from the expert's: how far mass must be
carried, if the way from s to t costs c(s,t). A divergence only sees whether states are the same. So
this problem has a finite solution where the expert never visits what the data contains.

The solution is often not unique: every policy with the same states is as good. HiGHS returns a
vertex of the set of solutions, in which nearly all states have a single action.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from scipy.optimize import linprog

from lobsdice.errors import LobsDICEError
from lobsdice.tabular.mdp import MDP, Floats, check_distribution
from lobsdice.tabular.support import behaviour_policy, conditional

#: A solution has converged if its duality gap is at most this share of the largest cost.
TOLERANCE = 1e-7


class Transport(NamedTuple):
    """The solution of the linear program.

    Attributes:
        policy: π[s,a]. In states without occupancy it is the behaviour policy d^I(a|s), or uniform
            if the data does not contain the state.
        occupancy: d[s,a], the occupancy of `policy`.
        plan: Π[s,t], the mass that is carried from s to the expert's state t.
        nu: ν[s], the multipliers of the flow constraint.
        primal: the cost of the plan, which is the Wasserstein distance of d(s) from d^E(s).
        dual: a lower bound of the cost of every plan and every policy.
        gap: primal - dual. A small gap certifies the solution.
        converged: True if the gap is at most 1e-7 · max(1, the largest cost).
    """

    policy: Float[np.ndarray, "S A"]
    occupancy: Float[np.ndarray, "S A"]
    plan: Float[np.ndarray, "S S"]
    nu: Float[np.ndarray, " S"]
    primal: float
    dual: float
    gap: float
    converged: bool


class _Program(NamedTuple):
    """min cost·x such that matrix·x = aim and x ≥ 0; x is d at `allowed` pairs, then Π."""

    cost: Floats
    matrix: Any
    aim: Floats
    allowed: Bool[np.ndarray, " SA"]
    targets: Bool[np.ndarray, " S"]


def pwdice(mdp: MDP, d_expert, d_offline, *, cost=None) -> Transport:
    """Match the states of d_expert[s, s'] by optimal transport, within d_offline[s, a].

    `cost`[s, t] is the distance of state t from state s, such as that of their features. Without it
    all different states are equally far, and the distance is the total variation. d(s,a) may be
    positive only where d_offline is. A state that the data never leaves is absorbing.
    """
    d_offline = np.asarray(d_offline, float)
    states = np.asarray(d_expert.sum(axis=1)).ravel()
    cost = 1 - np.eye(mdp.states) if cost is None else np.asarray(cost, float)
    _check(mdp, d_expert, d_offline, cost)
    program = _program(mdp, states, d_offline, cost)
    found = linprog(program.cost, A_eq=program.matrix, b_eq=program.aim, method="highs")
    if found.x is None:
        raise LobsDICEError(f"the linear program has no solution: {found.message}")
    return _solution(mdp, d_offline, program, found)


def _check(mdp: MDP, d_expert, d_offline: Floats, cost: Floats) -> None:
    if mdp.batched:
        raise LobsDICEError("pwdice solves one MDP at a time, but was given a batch")
    square = (mdp.states, mdp.states)
    parts = {
        "d_expert": (d_expert, square),
        "d_offline": (d_offline, (mdp.states, mdp.actions)),
        "cost": (cost, square),
    }
    for name, (part, shape) in parts.items():
        if part.shape != shape:
            raise LobsDICEError(
                f"{name} must have the shape {shape} to fit the MDP, but has {part.shape}"
            )
    check_distribution("d_expert", d_expert)
    check_distribution("d_offline", d_offline)
    if not (np.isfinite(cost) & (cost >= 0)).all():
        raise LobsDICEError("cost must have finite entries that are not negative")


def _program(mdp: MDP, states: Floats, d_offline: Floats, cost: Floats) -> _Program:
    size, targets = mdp.states, states > 0
    left = d_offline.sum(1) > 0
    allowed = ((d_offline > 0) | ~left[:, None]).ravel()
    leaves = sp.kron(sp.identity(size), np.ones((mdp.actions, 1))).tocsr()[allowed]
    goes = _with_absorbing(mdp, left)[allowed]
    count = int(targets.sum())
    carried = sp.kron(sp.identity(size), np.ones((1, count)))
    arrives = sp.kron(np.ones((1, size)), sp.identity(count))
    rows = [[(leaves - mdp.gamma * goes).T, None], [-leaves.T, carried], [None, arrives]]
    aims = [(1 - mdp.gamma) * mdp.initial, np.zeros(size), states[targets]]
    if mdp.gamma == 1:
        rows.append([np.ones((1, int(allowed.sum()))), None])
        aims.append(np.ones(1))
    price = np.concatenate([np.zeros(int(allowed.sum())), cost[:, targets].ravel()])
    return _Program(price, sp.bmat(rows).tocsr(), np.concatenate(aims), allowed, targets)


def _with_absorbing(mdp: MDP, left: Bool[np.ndarray, " S"]) -> sp.csr_matrix:
    """T of shape (S·A, S) in which the states that the data never leaves are absorbing."""
    size = mdp.states
    table = mdp.transition if mdp.sparse else mdp.transition.reshape(-1, size)
    kept = np.repeat(left, mdp.actions).astype(float)
    stay = sp.kron(sp.diags(1.0 - left), np.ones((mdp.actions, 1)))
    return sp.csr_matrix(sp.diags(kept) @ sp.csr_matrix(table) + stay)


def _solution(mdp: MDP, d_offline: Floats, program: _Program, found: Any) -> Transport:
    count = int(program.allowed.sum())
    d = np.zeros(program.allowed.size)
    d[program.allowed] = found.x[:count]
    plan = np.zeros((mdp.states, mdp.states))
    plan[:, program.targets] = found.x[count:].reshape(mdp.states, -1)
    d = d.reshape(d_offline.shape)
    multipliers = found.eqlin.marginals
    dual = _lower_bound(program, multipliers)
    gap = float(found.fun) - dual
    return Transport(
        policy=conditional(d, behaviour_policy(d_offline)),
        occupancy=d,
        plan=plan,
        nu=multipliers[: mdp.states],
        primal=float(found.fun),
        dual=dual,
        gap=gap,
        converged=bool(abs(gap) <= TOLERANCE * max(1.0, program.cost.max())),
    )


def _lower_bound(program: _Program, multipliers: Floats) -> float:
    """A bound that holds for any multipliers: both d and Π are distributions."""
    reduced = program.cost - program.matrix.T @ multipliers
    count = int(program.allowed.sum())
    slack = min(reduced[:count].min(), 0.0) + min(reduced[count:].min(), 0.0)
    return float(program.aim @ multipliers + slack)
