"""The support of the data: checks of inputs, dead ends, and the pairs (s,a) that a flow can use.

A flow is the occupancy d(s,a) of some policy.

No probability has a small constant added to it. Instead:

- A pair (s,a) that is not in the offline data has occupancy zero.
- A state that the data enters but never leaves is a dead end, such as the last state of a truncated
  episode. It becomes absorbing. The offline distribution has no mass there, but every flow that
  enters it does. So the dead end gets the mass that the occupancy of the behaviour policy has
  there, and the whole is scaled back to one. Final states are no dead ends: the data says what
  follows them (`estimates`).
- A pair (s,a) is left out if it makes the objective infinite: its successor pairs have no expert
  mass. Then every pair that may lead to a state without remaining pairs is left out, and so on. If
  an initial state has no pair left, the problem is infeasible.
- A state that the remaining pairs cannot reach has occupancy zero.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lobsdice.tabular.graph import Full, Local
from lobsdice.tabular.mdp import ROUNDING

Graph = Full | Local
Transitions = Float[np.ndarray, "*n S A P"]
Actions = Float[np.ndarray, "*n S A"]
States = Float[np.ndarray, "*n S"]
Mask = Bool[np.ndarray, "*n S A"]
Faults = Int[np.ndarray, " n"]


class Fault(IntEnum):
    """The reason why a problem cannot be solved; zero if it can."""

    NONE = 0
    TRANSITION = 1
    INITIAL = 2
    OFFLINE = 3
    EXPERT = 4
    INFEASIBLE = 5
    SEVERAL_CLASSES = 6


class Inputs(NamedTuple):
    """The problems as the user states them; `d_expert` is over (s,s') or (s,a)."""

    transition: Transitions
    initial: States
    d_offline: Actions
    d_expert: Float[np.ndarray, "*n S X"]
    alpha: Float[np.ndarray, "*n"]


class Offline(NamedTuple):
    """The offline data, in which dead ends are absorbing and have mass."""

    transition: Transitions
    initial: States
    behaviour: Actions  # the behaviour policy; uniform in states that are not in the data
    q: Actions
    q_pairs: Float[np.ndarray, "n S P"]


def push(x: Actions, table: Transitions) -> Float[np.ndarray, "*n S P"]:
    """Σ_a x(s,a) table(s,a,p)."""
    return (x[..., None, :] @ table)[..., 0, :]


def check(inputs: Inputs) -> Faults:
    """The first fault of each problem."""

    def wrong(p, axes):
        # Comparisons with NaN are false, so NaN is wrong.
        return ~((p.min(axes) >= 0) & (abs(p.sum(axes) - 1) < ROUNDING))

    return np.select(
        [
            wrong(inputs.transition, -1).any((1, 2)),
            wrong(inputs.initial, -1),
            wrong(inputs.d_offline, (1, 2)),
            wrong(inputs.d_expert, (1, 2)),
        ],
        [Fault.TRANSITION, Fault.INITIAL, Fault.OFFLINE, Fault.EXPERT],
        Fault.NONE,
    )


def sanitise(inputs: Inputs, fault: Faults) -> Inputs:
    """The inputs with distributions that sum exactly to one; faulty ones become uniform."""

    def clean(p, axes):
        if fault.any():
            p = np.where(fault.reshape(-1, *[1] * (p.ndim - 1)) > 0, 1.0, p)
        return p / p.sum(axes, keepdims=True)

    return Inputs(
        clean(inputs.transition, 3),
        clean(inputs.initial, 1),
        clean(inputs.d_offline, (1, 2)),
        clean(inputs.d_expert, (1, 2)),
        inputs.alpha,
    )


def occupancy(
    graph: Graph, transition: Transitions, source: States, policy: Actions, gamma
) -> Actions:
    """The d with Σ_a d(s,a) = source(s) + γ Σ d(s⁻,a) T(s|s⁻,a) and d(a|s) = π(a|s)."""
    d = graph.occupancy(source, gamma * push(policy, transition))
    return np.maximum(d, 0.0)[..., None] * policy


def conditional(d: Actions, fallback: Float[np.ndarray, "*#n S A"]) -> Actions:
    """d(a|s), or the fallback where d(s) = 0."""
    total = d.sum(-1, keepdims=True)
    return np.where(total > 0, d / np.where(total > 0, total, 1.0), fallback)


def behaviour_policy(d_offline: Actions) -> Actions:
    """d^I(a|s), uniform in states that are not in the data."""
    return conditional(d_offline, np.full(d_offline.shape[-2:], 1 / d_offline.shape[-1]))


def absorb_dead_ends(graph: Graph, inputs: Inputs, gamma: float) -> Offline:
    """The offline data, with dead ends made absorbing and given their mass."""
    transition, initial, q = inputs[:3]
    behaviour = behaviour_policy(q)
    left = q.sum(2) > 0
    if not left.all():
        transition = np.where(left[..., None, None], transition, graph.stay()[:, None, :])
        q = q + _dead_end_mass(graph, transition, initial, behaviour, left, gamma)
        q = q / q.sum((1, 2), keepdims=True)
    return Offline(transition, initial, behaviour, q, push(q, transition))


def _dead_end_mass(graph: Graph, transition, initial, behaviour, left, gamma: float) -> Actions:
    # At γ = 1 an absorbing state would hold all the mass. So it gets none, and the flow avoids it.
    if gamma == 1:
        return np.zeros_like(behaviour)
    entered = graph.reachable(initial > 0, push(behaviour, transition) > 0)
    steady = occupancy(graph, transition, (1 - gamma) * initial, behaviour, gamma)
    return np.where((entered & ~left)[..., None], steady, 0.0)


def viable(graph: Graph, allowed: Mask, transition: Transitions) -> Mask:
    """The allowed pairs from which a flow can stay within the allowed pairs for ever."""
    while True:
        stuck = graph.gather((~allowed.any(2)).astype(float))
        kept = allowed & ((transition @ stuck[..., None])[..., 0] == 0)
        if np.array_equal(kept, allowed):
            return kept
        allowed = kept


def discounted_support(graph: Graph, offline: Offline, allowed: Mask) -> tuple[Mask, Faults]:
    """The pairs that a flow from the initial states can use; a fault if it must leave them."""
    kept = viable(graph, allowed, offline.transition)
    stranded = ((offline.initial > 0) & ~kept.any(2)).any(1)
    edges = push(kept.astype(float), offline.transition) > 0
    support = kept & graph.reachable(offline.initial > 0, edges)[..., None]
    return support, np.where(stranded, Fault.INFEASIBLE, Fault.NONE)


def recurrent_support(graph: Graph, offline: Offline, allowed: Mask) -> tuple[Mask, Faults]:
    """The pairs of the only recurrent class, which a flow at γ = 1 can use; a fault if several."""
    while True:
        kept = viable(graph, allowed, offline.transition)
        closed = _connected(kept, offline.transition)
        lost = (~closed).swapaxes(1, 2).astype(float)  # [s, t]: t cannot come back to s
        kept = kept & ((offline.transition @ lost[..., None])[..., 0] == 0)
        if np.array_equal(kept, allowed):
            break
        allowed = kept
    live = np.any(allowed, axis=2)
    apart = np.any(live[:, :, None] & live[:, None, :] & ~closed, axis=(1, 2))
    fault = np.where(apart, Fault.SEVERAL_CLASSES, Fault.NONE)
    return allowed, np.where(np.any(live, axis=1), fault, Fault.INFEASIBLE)


def _connected(allowed: Mask, transition: Transitions) -> Bool[np.ndarray, "n S S"]:
    """True at [s, t] if t can be reached from s; every state reaches itself."""
    reach = (push(allowed.astype(float), transition) > 0) | np.eye(allowed.shape[1], dtype=bool)
    while True:
        further = reach.astype(float) @ reach.astype(float) > 0
        if np.array_equal(further, reach):
            return reach
        reach = further
