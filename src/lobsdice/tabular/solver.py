"""Solve a user's problem and certify the solution: checks, chunks of a batch, certificate."""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from lobsdice.data.machine import cores
from lobsdice.equations import duals
from lobsdice.errors import DataWarning, LobsDICEError
from lobsdice.tabular import newton, sparse, support
from lobsdice.tabular.graph import Full, localise, localise_pairs
from lobsdice.tabular.mdp import MDP, Floats, check_distribution
from lobsdice.tabular.newton import Problem, State
from lobsdice.tabular.solution import Solution
from lobsdice.tabular.support import Fault, Graph, Inputs, Offline

#: A batch is cut into chunks of CHUNK problems, each small enough for the cache of one core. After
#: ROUND steps the unfinished problems of a chunk continue in a chunk of size REST, if they fit. So
#: three sizes are compiled: these two, and a single problem.
CHUNK, REST = 64, 16
ROUND = 7
#: A solution has converged if its duality gap is at most this share of the objective.
TOLERANCE = 1e-9
#: The share of the offline distribution that is mixed into the expert's where it must be.
MIX = 1e-3


class Objective(NamedTuple):
    """The objective of a method, in the letters of `newton`; logarithms of zero are -inf."""

    kappa: Float[np.ndarray, " n"]
    features: Float[np.ndarray, "n S A M"]
    log_q: Float[np.ndarray, "n S A"]
    log_g: Float[np.ndarray, "n S M"]
    unsupported: Float[np.ndarray, " n"]


#: (offline data, expert distribution, alpha, mix) -> objective
Method = Callable[[Offline, Floats, Floats, Floats], Objective]


class Prepared(NamedTuple):
    """Convex problems, restricted to the pairs (s,a) that a flow can use."""

    gamma: float
    graph: Graph
    problem: Problem
    offline: Offline
    x: Float[np.ndarray, "n S A"]  # the first iterate
    unsupported: Float[np.ndarray, " n"]
    mix: Float[np.ndarray, " n"]
    fault: support.Faults


def solve(
    method: Method,
    mdp: MDP,
    d_expert,
    d_offline,
    *,
    alpha: float | Floats,
    mix: float | None,
    alpha_may_be_zero: bool = False,
    actions: bool = False,
) -> Solution:
    """The method's solution on one MDP, or on each MDP of a batch.

    With `actions`, the expert's distribution is over (s,a); otherwise it is over (s,s').
    """
    alpha = _array(alpha)
    _check_settings(alpha, mix, alpha_may_be_zero)
    d_offline = _array(d_offline)
    solver = _solve_sparse if mdp.sparse else _solve_dense
    solution = solver(method, mdp, d_expert, d_offline, alpha, mix, actions)
    _warn(solution, mix)
    return solution


@contextmanager
def double_precision():
    """Compute in float64 on the CPU, whatever the rest of the program uses."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def _solve_dense(method: Method, mdp: MDP, d_expert, d_offline, alpha, mix, actions) -> Solution:
    """The solution on one MDP or a batch, with full tables of transitions."""
    inputs = Inputs(mdp.transition, mdp.initial, d_offline, _array(d_expert), alpha)
    inputs, batched = _stack(inputs)
    _check_inputs(mdp, inputs, mdp.actions if actions else mdp.states, batched)
    solution = _solve_chunks(method, inputs, mdp.gamma, mix)
    if batched:
        return solution
    _raise(Fault(int(solution.fault[0])), mix)
    return Solution(*(field[0] for field in solution))


def _solve_chunks(method: Method, inputs: Inputs, gamma: float, mix: float | None) -> Solution:
    def run(first: int) -> Solution:
        chunk = Inputs(*(part[first : first + CHUNK] for part in inputs))
        with double_precision():
            return _solve_chunk(method, chunk, gamma, mix)

    first, *others = range(0, len(inputs.alpha), CHUNK)
    parts = [run(first)]  # alone, because two threads would compile the same program twice
    if others:
        with ThreadPoolExecutor(cores()) as threads:
            parts += threads.map(run, others)
    return Solution(*map(np.concatenate, zip(*parts, strict=True)))


def _solve_sparse(method: Method, mdp: MDP, d_expert, d_offline, alpha, mix, actions) -> Solution:
    """The solution on one sparse MDP."""
    if mdp.gamma == 1 or alpha.ndim:
        raise LobsDICEError("sparse transitions need gamma below 1 and a single alpha")
    graph, table = localise(mdp.transition)
    pairs = d_expert if actions else localise_pairs(graph, sp.csr_matrix(d_expert))
    parts = (table, mdp.initial, d_offline, _array(pairs), alpha)
    inputs = Inputs(*(part[None] for part in parts))
    _check_inputs(mdp, inputs, mdp.actions if actions else table.shape[2], batched=False)
    prepared = prepare(method, graph, inputs, mdp.gamma, mix)
    _raise(Fault(int(prepared.fault[0])), mix)
    with double_precision():
        problem = Problem(*(jnp.asarray(part[0]) for part in prepared.problem))
        state = sparse.iterate(problem, jnp.asarray(prepared.x[0]), graph)
        certified = _certify_sparse(problem, state, jnp.asarray(graph.successors))
        found = (np.asarray(part)[None] for part in (state.x.mass, state.steps, *certified))
    solution = Solution(*(field[0] for field in finish(prepared, *found)))
    over_pairs = solution.mu.shape == graph.successors.shape
    return solution._replace(mu=graph.matrix(solution.mu)) if over_pairs else solution


def _array(p) -> Floats:
    return np.asarray(p, dtype=float)


def _stack(inputs: Inputs) -> tuple[Inputs, bool]:
    """The inputs with a common leading axis, and True if any of them had one."""
    parts = list(zip(inputs, (3, 1, 2, 2, 0), strict=True))
    leading = [part.shape[: part.ndim - rank] for part, rank in parts]
    try:
        size = np.broadcast_shapes(*leading) or (1,)
    except ValueError:
        raise LobsDICEError(f"batch sizes differ between inputs: {sorted(set(leading))}") from None
    if len(size) > 1:
        raise LobsDICEError(f"a batch has one leading axis, but an input has {len(size)}")
    stacked = [
        np.broadcast_to(part, (*size, *part.shape[part.ndim - rank :])) for part, rank in parts
    ]
    return Inputs(*stacked), any(leading)


def _check_settings(alpha: Floats, mix: float | None, alpha_may_be_zero: bool) -> None:
    enough = alpha >= 0 if alpha_may_be_zero else alpha > 0
    wrong = ~(enough & np.isfinite(alpha))
    if np.any(wrong):
        wanted = "zero or a positive number" if alpha_may_be_zero else "a positive number"
        raise LobsDICEError(f"alpha must be {wanted}, but is {alpha[wrong][0]:g}")
    if mix is not None and not 0 <= mix < 1:
        raise LobsDICEError(f"mix must be at least 0 and below 1, but is {mix}")


def _check_inputs(mdp: MDP, inputs: Inputs, columns: int, batched: bool) -> None:
    """Raise an error for wrong shapes, and for wrong values; a batch reports those as faults."""
    for name, width in (("d_offline", mdp.actions), ("d_expert", columns)):
        d, shape = getattr(inputs, name), (mdp.states, width)
        if d.shape[1:] != shape:
            raise LobsDICEError(
                f"{name} must have the shape {shape} to fit the MDP, but has {d.shape[1:]}"
            )
        if not batched:
            check_distribution(name, d[0])


def _raise(fault: Fault, mix: float | None) -> None:
    if fault is Fault.INFEASIBLE:
        raise LobsDICEError(
            "every policy within the offline data visits pairs that the expert never visits, so "
            f"the divergence is infinite with mix = {mix}; leave mix out or choose a positive one, "
            "which adds a share of the offline distribution to the expert's"
        )
    if fault is Fault.SEVERAL_CLASSES:
        raise LobsDICEError(
            "with gamma = 1 the part of the MDP that the offline data covers must be one recurrent "
            "class, but it has several; choose gamma below 1"
        )
    if fault:
        raise LobsDICEError(f"the {fault.name.lower()} probabilities are not a distribution")


def _warn(solution: Solution, mix: float | None) -> None:
    """Warn if a share was mixed that nobody asked for."""
    mixed = int(np.count_nonzero(solution.mix))
    if mix is None and mixed:
        which = f"{mixed:,} of {solution.mix.size:,} problems " if solution.mix.ndim else ""
        warnings.warn(
            f"{which}solved with mix = {MIX}, because the pairs that the expert visits are too few "
            "for a policy within the offline data",
            DataWarning,
            stacklevel=4,
        )


def _pad(tree, size: int):
    """The tree with its last row repeated up to a leading axis of `size`."""

    def pad(x):
        x = np.asarray(x)
        return np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)]) if len(x) < size else x

    return jax.tree.map(pad, tree)


def _fit(count: int) -> int:
    return REST if count <= REST else CHUNK


def _solve_chunk(method: Method, inputs: Inputs, gamma: float, mix: float | None) -> Solution:
    count = len(inputs.alpha)
    prepared = prepare(method, Full(inputs.initial.shape[1]), inputs, gamma, mix)
    # A single problem is not padded.
    problem, x = _pad((prepared.problem, prepared.x), 1 if count == 1 else _fit(count))
    state = _refine(problem, _iterate(problem, _start(problem, x), ROUND))
    found = (state.x.mass, state.steps, *_certify(problem, state))
    return finish(prepared, *(np.asarray(part)[:count] for part in found))


def _refine(problem: Problem, state: State) -> State:
    """The state after the other steps of unfinished problems, in a smaller chunk if possible."""
    steps = np.asarray(state.steps)
    todo = np.flatnonzero(np.asarray(_unfinished(state)) & (steps < newton.MAX_STEPS))
    if not todo.size:
        return state
    take = partial(jax.tree.map, lambda x: np.asarray(x)[todo])
    rest, at = _pad((take(problem), take(state)), min(_fit(todo.size), len(steps)))
    after = _refine(rest, _iterate(rest, at, ROUND))

    def put(whole, part):
        whole = np.array(whole)
        whole[todo] = np.asarray(part)[: todo.size]
        return whole

    return jax.tree.map(put, state, after)


_start = jax.jit(jax.vmap(newton.start))
_unfinished = jax.jit(newton.unfinished)


@jax.jit
def _iterate(problem: Problem, state: State, steps) -> State:
    """The state after up to `steps` Newton steps of every problem of a chunk."""
    return jax.lax.while_loop(
        lambda carry: (carry[0] > 0) & jnp.any(newton.unfinished(carry[1])),
        lambda carry: (carry[0] - 1, jax.vmap(newton.step)(problem, carry[1])),
        (steps, state),
    )[1]


def prepare(
    method: Method, graph: Graph, inputs: Inputs, gamma: float, mix: float | None
) -> Prepared:
    """The convex problems of the inputs, and the first iterates."""
    fault = support.check(inputs)
    inputs = support.sanitise(inputs, fault)
    offline = support.absorb_dead_ends(graph, inputs, gamma)
    attempt = partial(_attempt, method, graph, offline, inputs, gamma, fault)
    share = np.full(len(fault), mix or 0.0)
    objective, on, found = attempt(share)
    needed = found >= Fault.INFEASIBLE
    if mix is None and needed.any():
        objective, on, found = attempt(np.where(needed, MIX, 0.0))
        share = np.where(needed & (found == 0), MIX, 0.0)
    problem = restrict(offline, objective, gamma, on)
    policy = support.conditional(np.where(on, offline.q, 0.0), offline.behaviour)
    x = flow_of(graph, problem, policy, gamma, found)
    return Prepared(gamma, graph, problem, offline, x, objective.unsupported, share, found)


def _attempt(method: Method, graph: Graph, offline, inputs, gamma, fault, share: Floats):
    """The objective with the shares mixed in, the pairs (s,a) for a flow, and the faults."""
    objective = method(offline, inputs.d_expert, inputs.alpha, share)
    return objective, *usable(graph, offline, objective, gamma, fault)


def usable(
    graph: Graph, offline: Offline, objective: Objective, gamma: float, fault: support.Faults
) -> tuple[support.Mask, support.Faults]:
    """The pairs (s,a) that a flow with a finite objective can use, and the faults."""
    seen = offline.q > 0
    supported = support.recurrent_support if gamma == 1 else support.discounted_support
    finite = np.isfinite(objective.log_q) & ~infinite(objective)
    on, stuck = supported(graph, offline, seen & finite)
    fault = np.where(fault > 0, fault, stuck)
    return np.where(fault[:, None, None] > 0, seen, on), fault


def restrict(offline: Offline, objective: Objective, gamma: float, on: support.Mask) -> Problem:
    """The convex problems on the pairs (s,a) of a mask."""
    transition, source = offline.transition, (1 - gamma) * offline.initial
    if gamma == 1:
        # The constraint Σ x = 1 joins the flow constraint, as b Σ x = b with b = source.
        source = on.any(2) / np.maximum(on.any(2).sum(1, keepdims=True), 1)
        transition = transition - source[:, None, None, :]
    return Problem(
        kappa=objective.kappa,
        gamma=np.full(len(on), gamma),
        source=source,
        transition=np.where(on[..., None], transition, 0.0),
        features=np.where(on[..., None], objective.features, 0.0),
        log_q=np.where(on & np.isfinite(objective.log_q), objective.log_q, 0.0),
        log_g=np.where(np.isfinite(objective.log_g), objective.log_g, 0.0),
        support=on,
    )


def infinite(objective: Objective) -> support.Mask:
    """The pairs (s,a) on which any mass makes the divergence of u from g infinite."""
    never = np.isneginf(objective.log_g).astype(float)
    return (objective.features @ never[..., None])[..., 0] > 0


def flow_of(
    graph: Graph, problem: Problem, policy: Floats, gamma: float, fault: support.Faults
) -> Floats:
    """The occupancy of a policy within the support."""
    # At γ = 1 a faulty problem may have no unique occupancy, so it is computed at γ = 0.
    safe = gamma * (fault == 0)[:, None, None]
    d = support.occupancy(graph, problem.transition, problem.source, policy, safe)
    return np.where(problem.support, d, 0.0)


def finish(prepared: Prepared, mass, steps, nu, mu, dual) -> Solution:
    """The policy, its exact occupancy, and the certificate."""
    gamma, graph, problem, offline, _, unsupported, mix, fault = prepared
    policy = support.conditional(mass, offline.behaviour)
    d = flow_of(graph, problem, policy, gamma, fault)
    primal = objective_value(problem, d)
    lam = (problem.source * nu).sum(1) if gamma == 1 else np.zeros(len(d))
    gap = primal - dual
    ok = (fault == 0) & np.isfinite(gap)

    def unless_faulty(value, instead):
        return np.where(ok.reshape(-1, *[1] * (value.ndim - 1)), value, instead)

    return Solution(
        policy=unless_faulty(policy, offline.behaviour),
        occupancy=unless_faulty(d, 0.0),
        nu=unless_faulty(nu, 0.0),
        mu=unless_faulty(mu, 0.0),
        lam=unless_faulty(lam, 0.0),
        primal=unless_faulty(primal, np.inf),
        dual=unless_faulty(dual, -np.inf),
        gap=unless_faulty(gap, np.inf),
        converged=ok & (gap <= TOLERANCE * np.maximum(1.0, abs(primal))),
        steps=steps,
        unsupported_expert_mass=unless_faulty(unsupported, 1.0),
        mix=mix,
        fault=fault,
    )


def objective_value(problem: Problem, x: Floats) -> Float[np.ndarray, " n"]:
    """κ Σ x log(x/q) + Σ u log(u/g)."""

    def relative(mass, log_reference):
        log = np.log(np.where(mass > 0, mass, 1.0))
        return (mass * (log - log_reference)).sum((1, 2))

    u = support.push(x, problem.features)
    return problem.kappa * relative(x, problem.log_q) + relative(u, problem.log_g)


def certificate(problem: Problem, state: State, topology: newton.Topology = newton.dense):
    """The multipliers ν and μ, with the implied measures scaled to mass one, and minus the dual."""
    on_u = state.u.mass > 0
    mu = jnp.where(on_u, state.u_dual.log - problem.log_g + 1, 0.0)
    e = -newton.contract(problem.features, mu)
    e = e - newton.flow_adjoint(problem, state.nu, topology)
    implied = jnp.where(problem.support, problem.log_q + e / problem.kappa - 1, -jnp.inf)
    rate = 1 - problem.gamma * jnp.max(jnp.sum(problem.transition, axis=2))
    shift = problem.kappa * jax.scipy.special.logsumexp(implied) / rate
    nu = jnp.where(jnp.any(problem.support, axis=1), state.nu + shift, 0.0)
    e = jnp.where(problem.support, e - rate * shift, 0.0).ravel()

    p = jnp.where(problem.support, jnp.exp(problem.log_q), 0.0).ravel()
    # `source` is (1-γ) p0, or its replacement if γ = 1.
    start = {"nu_init": nu, "p_init": problem.source, "gamma": 0.0}
    if mu.size == 0:
        return nu, mu, -duals.dual(e=e, p=p, alpha=problem.kappa - 1, **start)
    pairs = {"r": problem.log_g.ravel(), "mu": mu.ravel(), "p_pairs": on_u.ravel().astype(p.dtype)}
    return nu, mu, -duals.dual_double(e=e, p=p, alpha=problem.kappa, **pairs, **start)


_certify = jax.jit(jax.vmap(certificate))


@jax.jit
def _certify_sparse(problem: Problem, state: State, successors):
    return certificate(problem, state, sparse.topology(successors))
