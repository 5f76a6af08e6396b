"""The Newton method for large sparse MDPs: the steps of `newton` with a sparse factorisation."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Int

from lobsdice.tabular import newton
from lobsdice.tabular.graph import Local, factorise
from lobsdice.tabular.newton import Linear, Problem, State, Topology

#: Looser than in `newton`: both are sums over all states, and so are their rounding errors.
GAP = 1e-10
FLOW = 1e-10


def topology(successors: Int[Array, "S P"]) -> Topology:
    """The topology in which successor p of state s is successors[s, p]."""

    def scatter(mass: Float[Array, "S P"]) -> Float[Array, " S"]:
        return jnp.zeros(len(mass), mass.dtype).at[successors].add(mass)

    return Topology(lambda nu: nu[successors], scatter)


@jax.jit
def _linearise(problem: Problem, state: State, successors):
    linear = newton.linearise(problem, state, topology(successors))
    diagonal, across, spread = newton.schur(problem, linear)
    inward = jnp.einsum("sap,saq->spq", problem.transition, spread)
    return linear, (diagonal, across, inward)


@jax.jit
def _advance(problem: Problem, state: State, linear: Linear, d_nu, successors) -> State:
    return newton.advance(problem, state, linear, d_nu, topology(successors))


class Schur:
    """The sparse Schur complement of `newton.schur`; the places of its entries are found once."""

    def __init__(self, graph: Local, idle: Bool[np.ndarray, " S"]):
        here = np.arange(graph.states)
        there = graph.successors
        rows = [here, np.repeat(here, there.shape[1]), there.ravel()]
        columns = [here, there.ravel(), rows[1]]
        rows.append(np.repeat(there, there.shape[1], axis=1).ravel())
        columns.append(np.tile(there, (1, there.shape[1])).ravel())
        key = np.concatenate(columns).astype(np.int64) * graph.states + np.concatenate(rows)
        entries, self.place = np.unique(key, return_inverse=True)
        self.columns, self.rows = np.divmod(entries, graph.states)
        self.start = np.searchsorted(self.columns, np.arange(graph.states + 1))
        self.diagonal = np.flatnonzero(self.columns == self.rows)
        self.idle = idle

    def solve(self, diagonal, across, inward, rhs) -> Float[np.ndarray, " S"]:
        """The Newton direction of ν."""
        parts = [diagonal + self.idle, -across.ravel(), -across.ravel(), inward.ravel()]
        values = np.bincount(self.place, weights=np.concatenate(parts))
        scale = 1 / np.sqrt(values[self.diagonal])
        values = values * scale[self.rows] * scale[self.columns]
        values[self.diagonal] += newton.RIDGE
        size = len(scale)
        matrix = sp.csc_matrix((values, self.rows, self.start), shape=(size, size))
        return scale * factorise(matrix).solve(scale * rhs)


def iterate(problem: Problem, x: Float[Array, "S A"], graph: Local) -> State:
    """The last iterate of Newton's method from x."""
    successors = jnp.asarray(graph.successors)
    schur = Schur(graph, np.asarray(problem.support).sum(1) == 0)
    state = jax.jit(newton.start)(problem, x)
    while int(state.steps) < newton.MAX_STEPS and not (state.gap < GAP and state.residual < FLOW):
        linear, blocks = _linearise(problem, state, successors)
        d_nu = schur.solve(*map(np.asarray, (*blocks, linear.rhs)))
        after = _advance(problem, state, linear, jnp.asarray(d_nu), successors)
        if not (np.isfinite(after.gap) and np.isfinite(after.residual)):
            return state
        state = after
    return state
