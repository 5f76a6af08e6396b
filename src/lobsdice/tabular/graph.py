"""How the successors of a state are numbered: all states, or only those it has.

Tables over (s, s') have the shape [n, S, P] for n problems. In a `Full` graph successor p is
state p. In a `Local` one it is `successors[s, p]`, so that large sparse MDPs take the memory of
their transitions; the first successor is s itself, and the last stands for all states that s
cannot go to.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import SuperLU, splu

States = Float[np.ndarray, "n S"]
Pairs = Float[np.ndarray, "n S P"]


@dataclass(frozen=True)
class Full:
    """Every state may follow every state."""

    states: int

    def gather(self, values: Float[np.ndarray, "n S"]) -> Float[np.ndarray, "n #S P"]:
        """Values at the successors."""
        return values[:, None, :]

    def stay(self) -> Float[np.ndarray, "S P"]:
        """The transition from each state to itself."""
        return np.eye(self.states)

    def reachable(self, seed: Bool[np.ndarray, "n S"], edges: Bool[np.ndarray, "n S P"]):
        """The states that can be reached from the seed along edges, with the seed."""
        seen = seed
        while True:
            grown = seen | (edges & seen[..., None]).any(1)
            if np.array_equal(grown, seen):
                return seen
            seen = grown

    def occupancy(self, source: States, chain: Pairs) -> States:
        """d with d(s) = source(s) + Σ d(s⁻) chain(s|s⁻)."""
        matrix = np.eye(self.states) - chain.swapaxes(1, 2)
        return np.linalg.solve(matrix, source[..., None])[..., 0]

    def table(self, pairs: Float[np.ndarray, "S P"]):
        """A table over (s, s') as the user reads it."""
        return pairs


@dataclass(frozen=True, eq=False)
class Local:
    """The successors that one sparse MDP has; n is 1."""

    successors: Int[np.ndarray, "S P"]

    @property
    def states(self) -> int:
        return len(self.successors)

    def gather(self, values: Float[np.ndarray, "n S"]) -> Pairs:
        return values[:, self.successors]

    def stay(self) -> Float[np.ndarray, "S P"]:
        return (
            np.broadcast_to(np.arange(self.successors.shape[1]) == 0, self.successors.shape) * 1.0
        )

    def reachable(self, seed: Bool[np.ndarray, "n S"], edges: Bool[np.ndarray, "n S P"]):
        # A state of its own leads to the whole seed.
        entry = sp.csr_matrix(seed[0][None].astype(float))
        matrix = sp.bmat([[self._matrix(edges[0] * 1.0), None], [entry, sp.csr_matrix((1, 1))]])
        order = breadth_first_order(matrix.tocsr(), self.states, return_predecessors=False)
        seen = np.zeros(self.states + 1, dtype=bool)
        seen[order] = True
        return seen[None, :-1]

    def occupancy(self, source: States, chain: Pairs) -> States:
        matrix = sp.identity(self.states) - self._matrix(chain[0]).T
        return factorise(matrix).solve(source[0])[None]

    def table(self, pairs: Float[np.ndarray, "S P"]) -> sp.csr_matrix:
        return self._matrix(pairs)

    def _matrix(self, pairs: Float[np.ndarray, "S P"]) -> sp.csr_matrix:
        rows, columns = np.nonzero(pairs)
        entries = (pairs[rows, columns], (rows, self.successors[rows, columns]))
        return sp.csr_matrix(entries, shape=(self.states, self.states))


def factorise(matrix) -> SuperLU:
    """Sparse LU without pivoting, for what is symmetric in its pattern, or nearly, and dominant."""
    return splu(
        sp.csc_matrix(matrix),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def localise(transition: Any) -> tuple[Local, Float[np.ndarray, "S A P"]]:
    """The graph of sparse transitions (S·A, S) and their table [S, A, P]."""
    states = transition.shape[1]
    actions = transition.shape[0] // states
    entries = transition.tocoo()
    s, a = np.divmod(entries.row, actions)
    kept = (entries.col != s) & (entries.data != 0)
    pair = np.unique(s[kept].astype(np.int64) * states + entries.col[kept])
    owner, target = np.divmod(pair, states)
    rank = np.arange(pair.size) - np.searchsorted(owner, owner) + 1
    width = int(rank.max(initial=0)) + 2
    successors = np.repeat(np.arange(states)[:, None], width, axis=1)
    successors[owner, rank] = target

    position = np.zeros(entries.nnz, dtype=np.int64)
    position[kept] = rank[np.searchsorted(pair, s[kept] * np.int64(states) + entries.col[kept])]
    table = np.zeros((states, actions, width))
    np.add.at(table, (s, a, position), entries.data)
    return Local(successors), table


def localise_pairs(graph: Local, pairs: Any) -> Float[np.ndarray, "S P"]:
    """A sparse table over (s, s') in a local graph; the last column takes what is outside."""
    entries = sp.coo_matrix(pairs)
    table = np.zeros(graph.successors.shape)
    listed = graph.successors[entries.row][:, :-1] == entries.col[:, None]
    position = np.where(listed.any(1), listed.argmax(1), graph.successors.shape[1] - 1)
    np.add.at(table, (entries.row, position), entries.data)
    return table
