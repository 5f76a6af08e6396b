"""A primal-dual Newton method; conic solvers are 30 times slower (benchmarks/tabular_speed.py).

Every tabular method has unknowns x(s,a) ≥ 0 and features u(s,m) = Σ_a x(s,a) F(s,a,m), and solves

    min  κ Σ x log(x/q) + Σ u log(u/g)   with  Σ_a x(s,a) - γ Σ x(s⁻,a) T(s|s⁻,a) = b(s).

The constraint is the flow constraint: x is the occupancy of a policy. LobsDICE has F = T, so that
u(s,s') is the distribution of state pairs. Matching states has the one feature F = 1, so that u(s)
is the distribution of states. The upper bounds (OPOLO, SMODICE) and DemoDICE have no features.

The dual variables are ν(s) for the flow and μ = m + 1 for the features. They imply primal measures
of their own: q·exp(y) and g·exp(m), with κ (y + 1) = -F μ + γ T ν - ν. The duality gap is the sum
of the divergences of x and u from these implied measures. Newton's method on x alone would take the
slope of log x at x. On (μ, ν) alone it would take the slope at the implied measure. Here it takes
the slope of the chord between the two, the inverse of their logarithmic mean. If x must fall or
rise by orders of magnitude, the chord gets there in one step. So a small κ takes no more steps than
a large one, and no sequence of decreasing κ is needed.

Only the flow couples different states. All else is block diagonal, so a step costs one Cholesky
factorisation of size |S|. With D the diagonal of x, the blocks D^½ F (diag u)⁻¹ Fᵀ D^½ have norm at
most one. So the condition number of the A×A inverses is at most 1 + 1/κ, however many orders of
magnitude x spans.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

#: Masses below this count as zero: it is far below any mass that matters, far above underflow.
TINY = 1e-200
LOG_TINY = math.log(TINY)
#: A step may shrink an entry of x to a fraction of itself. The least fraction is the duality gap,
#: clipped to these bounds.
SHRINK = (1e-3, 0.2)
#: Newton's method stops when the gap is below GAP and the residual of the flow is below FLOW,
GAP = 1e-12
FLOW = 1e-11
#: or after this number of steps.
MAX_STEPS = 100
#: Added to the diagonal of the Schur complement, which is scaled to one. Steps are corrections, so
#: this does not change the solution.
RIDGE = 1e-13


class Problem(NamedTuple):
    """A convex problem, in the letters of the module's docstring; P is the number of successors."""

    kappa: Float[Any, ""]
    gamma: Float[Any, ""]
    source: Float[Any, " S"]  # b
    transition: Float[Any, "S A P"]
    features: Float[Any, "S A M"]
    log_q: Float[Any, "S A"]  # outside the support, any finite number
    log_g: Float[Any, "S M"]
    support: Bool[Any, "S A"]


class Measure(NamedTuple):
    """Masses and their logarithms; both are zero outside the support."""

    mass: Array
    log: Array


class State(NamedTuple):
    """The iterate of Newton's method: x, u = F x, ν, and the measures that the dual implies."""

    x: Measure  # [S, A]
    u: Measure  # [S, M]
    nu: Float[Array, " S"]
    x_dual: Measure
    u_dual: Measure
    gap: Float[Array, ""]
    residual: Float[Array, ""]
    steps: Int[Array, ""]


class Topology(NamedTuple):
    """The numbering of the successors of a state; see `graph`."""

    gather: Callable[[Array], Array]  # values at states -> values at successors [S, P]
    scatter: Callable[[Array], Array]  # mass at successors [S, P] -> mass at states


dense = Topology(
    gather=lambda nu: jnp.broadcast_to(nu, (nu.size, nu.size)),
    scatter=lambda mass: jnp.sum(mass, axis=0),
)


class Linear(NamedTuple):
    """A Newton step before its |S|×|S| system is solved."""

    root: Float[Array, "S A"]  # square roots of the slopes of x
    slope_u: Float[Array, "S M"]
    inverse: Float[Array, "S A A"]  # of the scaled blocks of the Hessian
    force: Float[Array, "S A"]  # gradient of the Lagrangian in x
    rhs: Float[Array, " S"]


def contract(table: Float[Array, "S A P"], values: Float[Array, "S P"]) -> Float[Array, "S A"]:
    """Σ_p table(s,a,p) values(s,p)."""
    return jnp.einsum("sap,sp->sa", table, values)


def push(x: Float[Array, "S A"], table: Float[Array, "S A P"]) -> Float[Array, "S P"]:
    """Σ_a x(s,a) table(s,a,p)."""
    return jnp.einsum("sa,sap->sp", x, table)


def flow(problem: Problem, x: Float[Array, "S A"], topology: Topology) -> Float[Array, " S"]:
    """Σ_a x(s,a) - γ Σ x(s⁻,a) T(s|s⁻,a)."""
    return jnp.sum(x, axis=1) - problem.gamma * topology.scatter(push(x, problem.transition))


def flow_adjoint(problem: Problem, nu: Float[Array, " S"], topology: Topology):
    """ν(s) - γ Σ T(s'|s,a) ν(s')."""
    expected = contract(problem.transition, topology.gather(nu))
    return nu[:, None] - problem.gamma * expected


def measure(mass: Array) -> Measure:
    return Measure(mass, jnp.log(jnp.where(mass > 0, mass, 1.0)))


def logarithmic_mean(x: Measure, y: Measure) -> Array:
    """(x - y) / (log x - log y), the slope of the chord of exp between log y and log x."""
    slant = x.log - y.log
    near = jnp.abs(slant) < 1e-3
    middle = jnp.sqrt(x.mass * y.mass) * (1 + slant**2 / 24)
    return jnp.where(near, middle, (x.mass - y.mass) / jnp.where(near, 1.0, slant))


def spd_inverse(matrix: Float[Array, "S A A"]) -> Float[Array, "S A A"]:
    """The inverses of small positive definite matrices, by Gauss-Jordan sweeps of all at once."""
    size = matrix.shape[-1]
    for k in range(size):
        here = jnp.arange(size) == k
        pivot = matrix[:, k, k][:, None, None]
        row = matrix[:, k, :][:, None, :] / pivot
        column = matrix[:, :, k][:, :, None]
        swept = jnp.where(here[None, None, :], -column / pivot, matrix - column * row)
        on_row = jnp.where(here[None, None, :], 1 / pivot, row)
        matrix = jnp.where(here[None, :, None], on_row, swept)
    return matrix


def start(problem: Problem, mass: Float[Array, "S A"]) -> State:
    """The first iterate, at a given x, which also serves as the measure that the dual implies."""
    x = measure(jnp.where(problem.support, jnp.maximum(mass, TINY), 0.0))
    u = measure(push(x.mass, problem.features))
    nu = jnp.zeros(problem.source.shape, x.mass.dtype)
    infinity = jnp.array(jnp.inf, x.mass.dtype)
    return State(x, u, nu, x, u, infinity, infinity, jnp.array(0))


def linearise(problem: Problem, state: State, topology: Topology) -> Linear:
    """The Newton system at an iterate: slopes, Hessian blocks, and the right-hand side for ν."""
    root = jnp.sqrt(logarithmic_mean(state.x, state.x_dual))
    slope_u = jnp.where(state.u.mass > 0, logarithmic_mean(state.u, state.u_dual), 1.0)

    scaled = root[:, :, None] * problem.features * jax.lax.rsqrt(slope_u)[:, None, :]
    blocks = jnp.einsum("sam,sbm->sab", scaled, scaled)
    inverse = spd_inverse(blocks + problem.kappa * jnp.eye(root.shape[1])[None])

    gradient = problem.kappa * (state.x.log - problem.log_q + 1)
    gradient += contract(problem.features, state.u.log - problem.log_g + 1)
    force = gradient + flow_adjoint(problem, state.nu, topology)
    force = jnp.where(problem.support, force, 0.0)
    drift = root * contract(inverse, root * force)
    short = problem.source - flow(problem, state.x.mass, topology)
    return Linear(root, slope_u, inverse, force, -flow(problem, drift, topology) - short)


def schur(problem: Problem, linear: Linear):
    """The parts of B H⁻¹ Bᵀ = diag(diagonal) - across - acrossᵀ + Tᵀ spread.

    B is the linear map of `flow`, H the Hessian in x. The shapes are [S], [S, P] and [S, A, P].
    """
    hessian = linear.root[:, :, None] * linear.inverse * linear.root[:, None, :]
    total = jnp.sum(hessian, axis=1)
    across = problem.gamma * push(total, problem.transition)
    spread = problem.gamma**2 * jnp.einsum("sab,sbp->sap", hessian, problem.transition)
    return jnp.sum(total, axis=1), across, spread


def solve_dense(problem: Problem, linear: Linear) -> Float[Array, " S"]:
    """The Newton direction of ν, by Cholesky factorisation."""
    diagonal, across, spread = schur(problem, linear)
    size = linear.rhs.size
    matrix = problem.transition.reshape(-1, size).T @ spread.reshape(-1, size)
    matrix = matrix - across - across.T + jnp.diag(diagonal)
    matrix = matrix + jnp.diag((~jnp.any(problem.support, axis=1)).astype(matrix.dtype))
    scale = jax.lax.rsqrt(jnp.diag(matrix))
    matrix = scale[:, None] * matrix * scale[None, :] + RIDGE * jnp.eye(scale.size)
    factor = jax.scipy.linalg.cho_factor(matrix, lower=True)
    return scale * jax.scipy.linalg.cho_solve(factor, scale * linear.rhs)


def advance(problem: Problem, state: State, linear: Linear, d_nu, topology: Topology) -> State:
    """The iterate after the full step; entries of x that would turn negative only shrink."""
    root, slope_u, inverse, force, _ = linear
    d_x = -root * contract(inverse, root * (force + flow_adjoint(problem, d_nu, topology)))
    log_u = state.u.log + push(d_x, problem.features) / slope_u
    nu = state.nu + d_nu
    e = -contract(problem.features, log_u - problem.log_g + 1)
    e = e - flow_adjoint(problem, nu, topology)
    x_dual = normalise(problem.log_q + e / problem.kappa - 1, problem.support)
    u_dual = normalise(log_u, state.u.mass > 0)

    least = jnp.clip(state.gap, *SHRINK)
    mass = jnp.maximum(state.x.mass + d_x, least * state.x.mass)
    x = measure(jnp.where(problem.support, jnp.maximum(mass, TINY), 0.0))
    u = measure(push(x.mass, problem.features))
    gap = problem.kappa * divergence(x, x_dual) + divergence(u, u_dual)
    residual = jnp.sum(jnp.abs(problem.source - flow(problem, x.mass, topology)))
    return State(x, u, nu, x_dual, u_dual, gap, residual, state.steps + 1)


def normalise(log: Array, on: Array) -> Measure:
    """The measure scaled to total mass one, as a shift of ν or μ would scale it."""
    peak = jnp.max(jnp.where(on, log, -jnp.inf), initial=-jnp.inf)
    mass = jnp.exp(jnp.where(on, log - peak, -jnp.inf))
    total = jnp.sum(mass)
    log = jnp.where(on, jnp.maximum(log - peak - jnp.log(total), LOG_TINY), 0.0)
    return Measure(jnp.where(on, jnp.maximum(mass / total, TINY), 0.0), log)


def divergence(x: Measure, y: Measure) -> Float[Array, ""]:
    """Σ x log(x/y) - x + y."""
    return jnp.sum(x.mass * (x.log - y.log) - x.mass + y.mass)


def unfinished(state: State) -> Bool[Array, "*n"]:
    return ~((state.gap < GAP) & (state.residual < FLOW))


def step(problem: Problem, state: State) -> State:
    """The iterate after a Newton step; the same one if it has converged or the step is broken."""
    linear = linearise(problem, state, dense)
    new = advance(problem, state, linear, solve_dense(problem, linear), dense)
    sound = jnp.isfinite(new.gap) & jnp.all(jnp.isfinite(new.nu))
    keep = unfinished(state) & sound
    new = jax.tree.map(lambda after, before: jnp.where(keep, after, before), new, state)
    return new._replace(steps=state.steps + unfinished(state))
