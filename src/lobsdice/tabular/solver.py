"""From a user's problem to a certified solution: checks, chunks of a batch, and the certificate."""

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

from lobsdice.environments.workers import cores
from lobsdice.equations import duals
from lobsdice.errors import LobsDICEError
from lobsdice.tabular import newton, sparse, support
from lobsdice.tabular.graph import Full, localise, localise_pairs
from lobsdice.tabular.mdp import MDP, check_distribution
from lobsdice.tabular.newton import Problem, State
from lobsdice.tabular.solution import Floats, Solution
from lobsdice.tabular.support import Fault, Graph, Inputs, Offline

#: A batch is cut into chunks, and what is unfinished of a chunk goes on in a smaller one. Each size
#: is compiled once. A small chunk stays in the cache of one core.
CHUNK, REST = 64, 16
#: Steps before the unfinished problems of a chunk are gathered into a smaller one.
ROUND = 7
TOLERANCE = 1e-9


class Objective(NamedTuple):
    """What a method adds to the flow polytope; logarithms of zero are -inf. See `newton`."""

    kappa: Float[np.ndarray, " n"]
    features: Float[np.ndarray, "n S A M"]
    log_q: Float[np.ndarray, "n S A"]
    log_g: Float[np.ndarray, "n S M"]
    unsupported: Float[np.ndarray, " n"]


#: (offline data, expert distribution, alpha, mix) -> objective
Method = Callable[[Offline, Floats, Floats, float], Objective]


class Prepared(NamedTuple):
    problem: Problem
    offline: Offline
    x: Float[np.ndarray, "n S A"]  # where to start
    unsupported: Float[np.ndarray, " n"]
    fault: support.Faults


def solve(
    method: Method,
    mdp: MDP,
    d_expert,
    d_offline,
    *,
    alpha: float | Floats,
    mix: float,
    least_alpha: float | None = None,
    actions: bool = False,
) -> Solution:
    """The method's solution on one MDP, or on each of a batch.

    `least_alpha` is the smallest α that is allowed; None asks for a positive one. `actions` says
    that the expert's distribution is over (s,a), not over (s,s').
    """
    alpha = np.asarray(alpha, dtype=float)
    _check_settings(alpha, mix, least_alpha)
    if mdp.sparse:
        return _solve_sparse(method, mdp, d_expert, d_offline, alpha, mix, actions)
    inputs = Inputs(mdp.transition, mdp.initial, _array(d_offline), _array(d_expert))
    inputs, alphas, batched = _stack(inputs, alpha)
    _check_inputs(mdp, inputs, mdp.actions if actions else mdp.states, batched)
    solution = _solve_chunks(method, inputs, mdp.gamma, alphas, mix)
    if batched:
        return solution
    _raise(Fault(int(solution.fault[0])), mix)
    return Solution(*(field[0] for field in solution))


@contextmanager
def double_precision():
    """float64 on the CPU, whatever the rest of the program computes with."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def _solve_chunks(method: Method, inputs: Inputs, gamma: float, alpha, mix: float) -> Solution:
    def run(first: int) -> Solution:
        rows = slice(first, first + CHUNK)
        chunk = Inputs(*(part[rows] for part in inputs))
        with double_precision():
            return _solve_chunk(method, chunk, gamma, alpha[rows], mix)

    first, *others = range(0, len(alpha), CHUNK)
    parts = [run(first)]  # compiles, which two threads would do twice
    if others:
        with ThreadPoolExecutor(cores()) as threads:
            parts += threads.map(run, others)
    return Solution(*map(np.concatenate, zip(*parts, strict=True)))


def _solve_sparse(method: Method, mdp: MDP, d_expert, d_offline, alpha, mix, actions) -> Solution:
    """One sparse MDP, in the numbering of its successors."""
    if mdp.gamma == 1 or alpha.ndim:
        raise LobsDICEError("sparse transitions need gamma below 1, and one alpha")
    graph, table = localise(mdp.transition)
    d_offline = _array(d_offline)
    pairs = d_expert if actions else localise_pairs(graph, sp.csr_matrix(d_expert))
    inputs = Inputs(*(part[None] for part in (table, mdp.initial, d_offline, _array(pairs))))
    _check_inputs(mdp, inputs, mdp.actions if actions else table.shape[2], batched=False)
    prepared = prepare(method, graph, inputs, mdp.gamma, alpha[None], mix)
    _raise(Fault(int(prepared.fault[0])), mix)
    with double_precision():
        problem = Problem(*(jnp.asarray(part[0]) for part in prepared.problem))
        state = sparse.iterate(problem, jnp.asarray(prepared.x[0]), graph)
        nu, mu, dual = _certify_sparse(problem, state, jnp.asarray(graph.successors))
        parts = (np.asarray(part)[None] for part in (state.x.mass, state.steps, nu, mu, -dual))
    solution = finish(graph, prepared, mdp.gamma, *parts)
    solution = Solution(*(field[0] for field in solution))
    over_pairs = solution.mu.shape == graph.successors.shape
    return solution._replace(mu=graph.table(solution.mu)) if over_pairs else solution


def _array(p) -> Floats:
    return np.asarray(p, dtype=float)


def _stack(inputs: Inputs, alpha: Floats) -> tuple[Inputs, Floats, bool]:
    """Give every input the same leading axis, which they may lack."""
    ranks = (3, 1, 2, 2, 0)
    parts = list(zip((*inputs, alpha), ranks, strict=True))
    leading = [part.shape[: part.ndim - rank] for part, rank in parts]
    try:
        size = np.broadcast_shapes(*leading) or (1,)
    except ValueError:
        raise LobsDICEError(f"batch sizes differ: {sorted(set(leading))}") from None
    if len(size) > 1:
        raise LobsDICEError(f"a batch has one leading axis, but the input has {len(size)}")
    stacked = [
        np.broadcast_to(part, (*size, *part.shape[part.ndim - rank :])) for part, rank in parts
    ]
    return Inputs(*stacked[:4]), stacked[4], any(leading)


def _check_settings(alpha: Floats, mix: float, least_alpha: float | None) -> None:
    enough = alpha > 0 if least_alpha is None else alpha >= least_alpha
    wrong = ~(enough & np.isfinite(alpha))
    if np.any(wrong):
        wanted = "a positive number" if least_alpha is None else f"a number from {least_alpha:g} up"
        raise LobsDICEError(f"alpha must be {wanted}, but is {alpha[wrong][0]:g}")
    if not 0 <= mix < 1:
        raise LobsDICEError(f"mix must be at least 0 and below 1, but is {mix}")


def _check_inputs(mdp: MDP, inputs: Inputs, columns: int, batched: bool) -> None:
    """Raise where the input is wrong for every problem; a batch reports its own faults."""
    states, actions = mdp.states, mdp.actions
    if inputs.d_offline.shape[1:] != (states, actions):
        raise LobsDICEError(
            f"d_offline must have the shape {(states, actions)} of the MDP's states and actions, "
            f"but has {inputs.d_offline.shape[1:]}"
        )
    if inputs.d_expert.shape[1:] != (states, columns):
        raise LobsDICEError(
            f"d_expert must have the shape {(states, columns)}, but has {inputs.d_expert.shape[1:]}"
        )
    if not batched:
        check_distribution("d_offline", inputs.d_offline[0])
        check_distribution("d_expert", inputs.d_expert[0])


def _raise(fault: Fault, mix: float) -> None:
    if fault is Fault.INFEASIBLE:
        raise LobsDICEError(
            "no stationary distribution within the offline data's support avoids what the expert "
            f"never shows, so the divergence is infinite (mix = {mix}; a positive mix adds a share "
            "of the offline distribution to the expert's)"
        )
    if fault is Fault.SEVERAL_CLASSES:
        raise LobsDICEError(
            "with gamma = 1 the supported part of the MDP must be one recurrent class, "
            "but it has several"
        )
    if fault:
        raise LobsDICEError(f"the {fault.name.lower()} probabilities are not a distribution")


def _pad(tree, size: int):
    """Repeat the last row up to a leading axis of `size`."""

    def pad(x):
        x = np.asarray(x)
        return np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)]) if len(x) < size else x

    return jax.tree.map(pad, tree)


def _fit(count: int) -> int:
    return REST if count <= REST else CHUNK


def _solve_chunk(method: Method, inputs: Inputs, gamma: float, alpha, mix: float) -> Solution:
    count = len(alpha)
    graph = Full(inputs.initial.shape[1])
    prepared = prepare(method, graph, inputs, gamma, alpha, mix)
    # A problem of its own is not padded.
    problem, x = _pad((prepared.problem, prepared.x), 1 if count == 1 else _fit(count))
    state = _refine(problem, _iterate(problem, _start(problem, x), ROUND))
    certified = _certify(problem, state)
    mass, steps = np.asarray(state.x.mass), np.asarray(state.steps)
    nu, mu, dual = (np.asarray(part)[:count] for part in certified)
    return finish(graph, prepared, gamma, mass[:count], steps[:count], nu, mu, -dual)


def _refine(problem: Problem, state: State) -> State:
    """Go on with the problems of a chunk that are not finished, in a smaller chunk."""
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
    """Up to `steps` Newton steps of every problem of a chunk."""

    def going(carry):
        left, state = carry
        return (left > 0) & jnp.any(newton.unfinished(state))

    def body(carry):
        left, state = carry
        return left - 1, jax.vmap(newton.step)(problem, state)

    return jax.lax.while_loop(going, body, (steps, state))[1]


def prepare(
    method: Method, graph: Graph, inputs: Inputs, gamma: float, alpha: Floats, mix: float
) -> Prepared:
    """The convex problems of the input, restricted to what a flow can use, and where to start."""
    fault = support.check(inputs)
    inputs = support.sanitise(inputs, fault)
    offline = support.absorb_dead_ends(graph, inputs, gamma)
    objective = method(offline, inputs.d_expert, alpha, mix)
    seen = offline.q > 0
    restrict = support.recurrent_support if gamma == 1 else support.discounted_support
    finite = np.isfinite(objective.log_q) & ~infinite(objective)
    on, stuck = restrict(graph, offline, seen & finite)
    fault = np.where(fault > 0, fault, stuck)
    on = np.where(fault[:, None, None] > 0, seen, on)

    transition, source = offline.transition, (1 - gamma) * offline.initial
    if gamma == 1:
        # Σ x = 1 joins the flow constraint as a constant inflow: x out - x in + r Σ x = r.
        source = on.any(2) / np.maximum(on.any(2).sum(1, keepdims=True), 1)
        transition = transition - source[:, None, None, :]
    policy = support.conditional(np.where(on, offline.q, 0.0), offline.behaviour)
    problem = Problem(
        kappa=objective.kappa,
        gamma=np.full(len(alpha), gamma),
        source=source,
        transition=np.where(on[..., None], transition, 0.0),
        features=np.where(on[..., None], objective.features, 0.0),
        log_q=np.where(on & np.isfinite(objective.log_q), objective.log_q, 0.0),
        log_g=np.where(np.isfinite(objective.log_g), objective.log_g, 0.0),
        support=on,
    )
    x = flow_of(graph, problem, policy, gamma, fault)
    return Prepared(problem, offline, x, objective.unsupported, fault)


def infinite(objective: Objective) -> support.Mask:
    """Where any mass on (s,a) would make the divergence of the features infinite."""
    never = np.isneginf(objective.log_g).astype(float)
    return (objective.features @ never[..., None])[..., 0] > 0


def flow_of(
    graph: Graph, problem: Problem, policy: Floats, gamma: float, fault: support.Faults
) -> Floats:
    """The occupancy of a policy within the support."""
    # A faulty problem may have no unique one.
    safe = gamma * (fault == 0)[:, None, None]
    d = support.occupancy(graph, problem.transition, problem.source, policy, safe)
    return np.where(problem.support, d, 0.0)


def finish(graph: Graph, prepared: Prepared, gamma: float, mass, steps, nu, mu, dual) -> Solution:
    """Policy, its exact occupancy, and the certificate."""
    problem, offline, _, unsupported, fault = prepared
    policy = support.conditional(mass, offline.behaviour)
    d = flow_of(graph, problem, policy, gamma, fault)
    primal = objective_value(problem, d)
    lam = (problem.source * nu).sum(1) if gamma == 1 else np.zeros(len(nu))
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
    """ν and μ, shifted so that what they imply has mass one, and the paper's dual there."""
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
    # `source` is (1-γ) p0, or what takes its place when γ = 1.
    start = {"nu_init": nu, "p_init": problem.source, "gamma": 0.0}
    if mu.size == 0:
        return nu, mu, duals.dual(e=e, p=p, alpha=problem.kappa - 1, **start)
    pairs = {"r": problem.log_g.ravel(), "mu": mu.ravel(), "p_pairs": on_u.ravel().astype(p.dtype)}
    return nu, mu, duals.dual_double(e=e, p=p, alpha=problem.kappa, **pairs, **start)


_certify = jax.jit(jax.vmap(certificate))


@jax.jit
def _certify_sparse(problem: Problem, state: State, successors):
    return certificate(problem, state, sparse.topology(successors))
