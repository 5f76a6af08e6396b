"""The numbering of the successors of a state: `Full`, over all states, or `Local`, over its own.

Tables over (s, s') have the shape [n, S, P] for n problems. In a `Full` graph, successor p is
state p. In a `Local` graph, it is `successors[s, p]`: a large sparse MDP then takes no more memory
than its transitions. The first successor is s itself. The last one stands for all states that s
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
    """The graph in which every state may follow every state."""

    states: int

    def gather(self, values: Float[np.ndarray, "n S"]) -> Float[np.ndarray, "n #S P"]:
        """Values at the successors."""
        return values[:, None, :]

    def stay(self) -> Float[np.ndarray, "S P"]:
        """The transition from each state to itself."""
        return np.eye(self.states)

    def reachable(self, seed: Bool[np.ndarray, "n S"], edges: Bool[np.ndarray, "n S P"]):
        """The states of the seed, and those that can be reached from them along edges."""
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


@dataclass(frozen=True, eq=False)
class Local:
    """The graph of the successors in one sparse MDP; n is 1."""

    successors: Int[np.ndarray, "S P"]

    @property
    def states(self) -> int:
        return len(self.successors)

    def gather(self, values: Float[np.ndarray, "n S"]) -> Pairs:
        return values[:, self.successors]

    def stay(self) -> Float[np.ndarray, "S P"]:
        first = np.arange(self.successors.shape[1]) == 0
        return np.broadcast_to(first, self.successors.shape) * 1.0

    def reachable(self, seed: Bool[np.ndarray, "n S"], edges: Bool[np.ndarray, "n S P"]):
        # The search starts at one more state, which leads to every state of the seed.
        entry = sp.csr_matrix(seed[0][None].astype(float))
        matrix = sp.bmat([[self.matrix(edges[0] * 1.0), None], [entry, sp.csr_matrix((1, 1))]])
        order = breadth_first_order(matrix.tocsr(), self.states, return_predecessors=False)
        seen = np.zeros(self.states + 1, dtype=bool)
        seen[order] = True
        return seen[None, :-1]

    def occupancy(self, source: States, chain: Pairs) -> States:
        matrix = sp.identity(self.states) - self.matrix(chain[0]).T
        return factorise(matrix).solve(source[0])[None]

    def matrix(self, pairs: Float[np.ndarray, "S P"]) -> sp.csr_matrix:
        """A table over (s, s') as a sparse matrix over all states."""
        rows, columns = np.nonzero(pairs)
        entries = (pairs[rows, columns], (rows, self.successors[rows, columns]))
        return sp.csr_matrix(entries, shape=(self.states, self.states))


def factorise(matrix) -> SuperLU:
    """Sparse LU without pivoting: the diagonal dominates, the pattern is nearly symmetric."""
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
    """A sparse table over (s, s') in a local graph; pairs outside it go to the last column."""
    entries = sp.coo_matrix(pairs)
    table = np.zeros(graph.successors.shape)
    listed = graph.successors[entries.row][:, :-1] == entries.col[:, None]
    position = np.where(listed.any(1), listed.argmax(1), graph.successors.shape[1] - 1)
    np.add.at(table, (entries.row, position), entries.data)
    return table
