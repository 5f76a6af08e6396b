"""Finite MDPs without reward: estimates from counts, occupancies, values, policies."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from jaxtyping import Float

from lobsdice.errors import LobsDICEError

Floats = Float[np.ndarray, "..."]
#: The largest error in a sum of probabilities that counts as rounding.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class MDP:
    """Transition probabilities T[s, a, s'], initial distribution p0[s], and the discount γ.

    With a leading axis on both arrays this is a batch of MDPs. `transition` may also be a
    scipy.sparse matrix of shape (S·A, S), whose row s·A + a is T(·|s,a).
    """

    transition: Any  # an array, or a scipy.sparse matrix
    initial: Floats
    gamma: float

    def __post_init__(self):
        if sp.issparse(self.transition):
            object.__setattr__(self, "transition", sp.csr_matrix(self.transition, dtype=float))
        else:
            object.__setattr__(self, "transition", np.asarray(self.transition, dtype=float))
        object.__setattr__(self, "initial", np.asarray(self.initial, dtype=float))
        object.__setattr__(self, "gamma", float(self.gamma))
        _check_shapes(self)
        if not self.batched:
            _check_values(self)

    @property
    def sparse(self) -> bool:
        """True if the transitions are a sparse matrix."""
        return sp.issparse(self.transition)

    @property
    def batched(self) -> bool:
        """True if this is a batch of MDPs."""
        return not self.sparse and self.transition.ndim == 4

    @property
    def states(self) -> int:
        """The number of states."""
        return self.transition.shape[-1]

    @property
    def actions(self) -> int:
        """The number of actions."""
        if self.sparse:
            return self.transition.shape[0] // self.states
        return self.transition.shape[-2]


def _check_shapes(mdp: MDP) -> None:
    shape = mdp.transition.shape
    if not 0 < mdp.gamma <= 1:
        raise LobsDICEError(f"gamma must be above 0 and at most 1, but is {mdp.gamma}")
    if mdp.sparse and (shape[1] == 0 or shape[0] == 0 or shape[0] % shape[1]):
        raise LobsDICEError(
            f"sparse transitions must have the shape (S*A, S), but have {tuple(shape)}"
        )
    if not mdp.sparse and (len(shape) not in (3, 4) or shape[-1] != shape[-3] or 0 in shape):
        raise LobsDICEError(
            f"transition must have the shape (S, A, S), or (batch, S, A, S), but has {shape}"
        )
    expected = (*(shape[:1] if mdp.batched else ()), mdp.states)
    if mdp.initial.shape != expected:
        raise LobsDICEError(
            f"initial must have the shape {expected} of the MDP's states, "
            f"but has {mdp.initial.shape}"
        )


def _check_values(mdp: MDP) -> None:
    values = mdp.transition.data if mdp.sparse else mdp.transition
    sums = np.asarray(mdp.transition.sum(axis=-1)).ravel()
    wrong = np.flatnonzero(~(np.abs(sums - 1) < ROUNDING))
    if wrong.size:
        s, a = divmod(int(wrong[0]), mdp.actions)
        raise LobsDICEError(
            f"transition probabilities must sum to one, but those of state {s} and action {a} "
            f"sum to {sums[wrong[0]]:.6g}"
        )
    if not np.all(values >= 0):
        raise LobsDICEError("transition probabilities must not be negative")
    check_distribution("initial", mdp.initial)


def check_distribution(name: str, p) -> None:
    """Raise an error unless p, dense or sparse, is non-negative and sums to one."""
    values = p.data if sp.issparse(p) else p
    if not np.all(values >= 0):
        raise LobsDICEError(f"{name} must not have negative or missing (NaN) entries")
    if not abs(p.sum() - 1) < ROUNDING:
        raise LobsDICEError(f"{name} must sum to one, but sums to {p.sum():.6g}")


def from_counts(counts, initial, gamma: float) -> MDP:
    """The maximum-likelihood MDP of counts[s, a, s'], or of a sparse matrix of shape (S·A, S).

    Counts may be weighted, so need not be integers. A pair (s,a) without counts stays in s: a
    policy cannot rely on what is not in the data. So a state that the data never leaves is
    absorbing. `initial` holds counts or probabilities of the initial states.
    """
    initial = np.asarray(initial, dtype=float)
    if not np.all(initial >= 0) or not np.all(initial.sum(-1) > 0):
        raise LobsDICEError("initial must have non-negative entries, not all of them zero")
    initial = initial / initial.sum(-1, keepdims=True)
    if not np.all((counts.data if sp.issparse(counts) else np.asarray(counts)) >= 0):
        raise LobsDICEError("counts must not have negative or missing (NaN) entries")
    if sp.issparse(counts):
        return MDP(_normalise_sparse(sp.csr_matrix(counts, dtype=float)), initial, gamma)
    counts = np.asarray(counts, dtype=float)
    total = counts.sum(-1, keepdims=True)
    stay = np.eye(counts.shape[-1])[:, None, :]
    transition = np.where(total > 0, counts / np.where(total > 0, total, 1), stay)
    return MDP(transition, initial, gamma)


def _normalise_sparse(counts: Any) -> sp.csr_matrix:
    total = np.asarray(counts.sum(axis=1)).ravel()
    unseen = np.flatnonzero(total == 0)
    actions = counts.shape[0] // counts.shape[1]
    stay = sp.csr_matrix((np.ones(unseen.size), (unseen, unseen // actions)), shape=counts.shape)
    scale = sp.diags(1 / np.where(total > 0, total, 1))
    return sp.csr_matrix(scale @ counts + stay)


def chain(mdp: MDP, policy: Floats) -> Any:
    """P[s, s'] = Σ_a π(a|s) T(s'|s,a), which is sparse for a sparse MDP."""
    if mdp.sparse:
        rows = np.repeat(np.arange(mdp.states), mdp.actions)
        columns = np.arange(mdp.states * mdp.actions)
        shape = (mdp.states, mdp.states * mdp.actions)
        return sp.csr_matrix((np.ravel(policy), (rows, columns)), shape=shape) @ mdp.transition
    return np.einsum("...sa,...sat->...st", policy, mdp.transition)


def _solve(matrix: Any, rhs: Floats) -> Floats:
    if sp.issparse(matrix):
        return scipy.sparse.linalg.splu(sp.csc_matrix(matrix)).solve(rhs)
    return np.linalg.solve(matrix, rhs[..., None])[..., 0]


def occupancy(mdp: MDP, policy: Floats) -> Floats:
    """d^π[s, a] = (1-γ) Σ_t γ^t Pr(s_t = s, a_t = a); if γ = 1, the stationary distribution."""
    policy = np.asarray(policy, dtype=float)
    identity: Any = sp.identity(mdp.states) if mdp.sparse else np.eye(mdp.states)
    out = identity - mdp.gamma * chain(mdp, policy)
    matrix = out.T if mdp.sparse else out.swapaxes(-1, -2)
    rhs = (1 - mdp.gamma) * mdp.initial
    if mdp.gamma == 1:
        # The rows of I - Pᵀ sum to zero, so one is redundant: Σ d = 1 replaces the last.
        matrix = matrix.toarray() if mdp.sparse else matrix
        matrix[..., -1, :] = 1
        rhs[..., -1] = 1
    return np.maximum(_solve(matrix, rhs), 0)[..., None] * policy


def pair_occupancy(mdp: MDP, d: Floats) -> Any:
    """d̄[s, s'] = Σ_a d(s,a) T(s'|s,a), the occupancy of state pairs."""
    return chain(mdp, d)


def value(mdp: MDP, policy: Floats, reward: Floats) -> Floats:
    """V^π[s], the value of a policy under the reward R[s, a]."""
    expected = np.sum(policy * reward, axis=-1)
    identity: Any = sp.identity(mdp.states) if mdp.sparse else np.eye(mdp.states)
    return _solve(identity - mdp.gamma * chain(mdp, policy), expected)


def action_value(mdp: MDP, v: Floats, reward: Floats) -> Floats:
    """Q[s, a] = R(s,a) + γ Σ T(s'|s,a) V(s')."""
    if mdp.sparse:
        return reward + mdp.gamma * (mdp.transition @ v).reshape(reward.shape)
    return reward + mdp.gamma * np.einsum("...sat,...t->...sa", mdp.transition, v)


def optimal_action_value(mdp: MDP, reward: Floats) -> Floats:
    """Q*[s, a], by policy iteration; needs γ < 1."""
    if mdp.gamma == 1:
        raise LobsDICEError("optimal values need a discounted MDP, but gamma is 1")
    reward = np.broadcast_to(reward, (*mdp.initial.shape, mdp.actions))
    policy = greedy(reward)
    while True:
        q = action_value(mdp, value(mdp, policy, reward), reward)
        now = np.take_along_axis(q, policy.argmax(-1)[..., None], -1)[..., 0]
        better = q.max(-1) > now + 1e-12 * (1 + np.abs(now))
        if not better.any():
            return q
        policy = np.where(better[..., None], greedy(q), policy)


def greedy(q: Floats) -> Floats:
    """The policy that takes the best action of Q[s, a], the first one if several are best."""
    return np.eye(q.shape[-1])[q.argmax(-1)]


def softmax(q: Floats, temperature: float | Floats) -> Floats:
    """π(a|s) ∝ exp(Q(s,a) / temperature)."""
    scaled = (q - q.max(-1, keepdims=True)) / temperature
    weights = np.exp(scaled)
    return weights / weights.sum(-1, keepdims=True)


def total_variation(p: Any, q: Any) -> Floats | float:
    """½ Σ |p - q| over the last two axes, or over all entries of sparse matrices."""
    return 0.5 * abs(p - q).sum() if sp.issparse(p) else 0.5 * np.abs(p - q).sum((-1, -2))
