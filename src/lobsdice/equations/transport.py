"""Optimal transport with a little entropy, by Sinkhorn's iteration (Cuturi, 2013, arXiv:1306.0895).

The plan P moves masses p of n points to masses q of m points, and has the least Σ C_ij P_ij less ε
times its entropy. It is P_ij = u_i K_ij v_j with the kernel K_ij = exp(f_i + g_j - C_ij/ε). Each
iteration makes the columns of P right, and then its rows. So whenever it stops, rows have the
masses p.

Products with the kernel are ten times as fast as sums of exponentials of logarithms. They overflow
if u or v grow. Then their logarithms go into f and g, and a new kernel takes the place of the old.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax.lax import Precision, while_loop
from jaxtyping import Array, Bool, Float, Int

from lobsdice.equations.duals import Number

#: Factors beyond this go into a new kernel. An iteration changes factors by max(n, m)² at the most:
#: they stay far from the largest number in single precision, 3e38. If no factor is large, none is
#: small: entries of a kernel are at most 1, so that u_i ≥ p_i / (m max v), v_j ≥ q_j / (n max u).
LARGEST = 1e12

Matrix = Float[Array, "n m"]
Rows = Float[Array, " n"]
Columns = Float[Array, " m"]
Scalar = Float[Array, ""]


class Scaling(NamedTuple):
    """The factors of a kernel after some iterations."""

    u: Rows
    v: Columns
    done: Int[Array, ""]
    """Iterations so far, with all kernels."""
    misplaced: Scalar
    """The mass that the columns had too much or too little before the last iteration."""
    largest: Scalar
    """The largest factor."""


class Potentials(NamedTuple):
    """What is known between two kernels."""

    f: Rows
    g: Columns
    scaling: Scaling
    paid: Rows


def transport_costs(
    cost: Matrix,
    p: Rows,
    q: Columns,
    *,
    epsilon: Number,
    iterations: int | Int[Array, ""],
    tolerance: Number,
) -> Rows:
    """Σ_j P_ij C_ij: what each row pays for its share of the plan.

    It stops after so many iterations, or as soon as less mass than `tolerance` is misplaced. Points
    without mass do not count, so that padding changes nothing.
    """

    def goes_on(state: Scaling) -> Bool[Array, ""]:
        return (state.done < iterations) & (state.misplaced >= tolerance)

    first = first_potentials(cost, p, q, epsilon)
    return while_loop(
        lambda state: goes_on(state.scaling),
        lambda state: with_new_kernel(cost, p, q, epsilon, state, goes_on),
        first,
    ).paid


def with_new_kernel(
    cost: Matrix,
    p: Rows,
    q: Columns,
    epsilon: Number,
    state: Potentials,
    goes_on: Callable[[Scaling], Bool[Array, ""]],
) -> Potentials:
    """Iterate with the kernel of f and g, until its factors are large or nothing is left to do."""
    f, g, start, _ = state
    kernel = jnp.exp(f[:, None] + g[None, :] - cost / epsilon)
    u, v, done, misplaced, largest = while_loop(
        lambda s: goes_on(s) & (s.largest < LARGEST), lambda s: iterate(kernel, p, q, s), start
    )
    ones = jnp.ones_like
    again = Scaling(ones(u), ones(v), done, misplaced, ones(largest))
    paid = u * product(kernel * cost, v)
    return Potentials(f + jnp.log(u), g + jnp.log(v), again, paid)


def first_potentials(cost: Matrix, p: Rows, q: Columns, epsilon: Number) -> Potentials:
    """The f and g with which each row and column of the kernel has an entry 1, and none is larger.

    So no row and no column vanishes, however far the points lie apart. Those without mass are zero.
    The factors u undo f: the iteration starts where it does on logarithms, at f = g = 0.
    """
    exponent, inf = cost / epsilon, jnp.full((), jnp.inf, cost.dtype)
    g = jnp.min(exponent + jnp.where(p > 0, 0, inf)[:, None], axis=0)
    g = jnp.where(q > 0, g, -inf)
    f = jnp.where(p > 0, jnp.min(exponent - g[None, :], axis=1), -inf)
    u = jnp.where(p > 0, jnp.exp(-f), 0)
    scaling = Scaling(u, jnp.ones_like(g), jnp.zeros((), int), inf, jnp.ones_like(inf))
    return Potentials(f, g, scaling, jnp.zeros_like(f))


def iterate(kernel: Matrix, p: Rows, q: Columns, state: Scaling) -> Scaling:
    """Sinkhorn's iteration: columns of the plan get the sums q, then its rows the sums p."""
    sums = product(state.u, kernel)
    misplaced = jnp.sum(jnp.abs(state.v * sums - q))
    v = _ratio(q, sums)
    u = _ratio(p, product(kernel, v))
    return Scaling(u, v, state.done + 1, misplaced, jnp.maximum(jnp.max(u), jnp.max(v)))


def product(x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
    """x y in full precision, also where matrices are rounded by default."""
    return jnp.matmul(x, y, precision=Precision.HIGHEST)


def _ratio(mass: Float[Array, " k"], total: Float[Array, " k"]) -> Float[Array, " k"]:
    return jnp.where(mass > 0, mass / total, 0)
