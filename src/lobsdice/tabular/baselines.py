"""The baselines of LobsDICE, as problems for the same solver.

    OPOLO     min  E_d[log d^I(s,s') / d^E(s,s')] + KL(d(s,a) ‖ d^I(s,a)),  eq. (3)
    SMODICE   min  E_d[log d^I(s) / d^E(s)]       + KL(d(s,a) ‖ d^I(s,a)),  eq. (33)
    DemoDICE  min  KL(d(s,a) ‖ d^E(s,a)) + α KL(d(s,a) ‖ d^I(s,a))
    BCO       π(a|s) = d^E(a|s), with the expert's actions inferred by an inverse dynamics model
    BC        π(a|s) = d^I(a|s)

OPOLO's objective is an upper bound of KL(d(s,s') ‖ d^E(s,s')), and SMODICE's of KL(d(s) ‖ d^E(s)).
"""

from functools import partial

import numpy as np

from lobsdice.tabular.graph import localise, localise_pairs
from lobsdice.tabular.lobsdice import blend, safe_log
from lobsdice.tabular.mdp import MDP, Floats, occupancy
from lobsdice.tabular.solution import Clone, Solution
from lobsdice.tabular.solver import Objective, solve
from lobsdice.tabular.support import Offline, behaviour_policy, conditional, push

#: With these methods α may be zero: they regularise by (1 + α) KL(d ‖ d^I).
_solve = partial(solve, alpha_may_be_zero=True)


def _linear(offline: Offline, r: Floats, kappa: Floats, unsupported: Floats) -> Objective:
    """κ KL(d ‖ d^I) - E_d[r], written as κ KL(d ‖ d^I exp(r/κ)) up to a constant."""
    none = np.empty((*offline.q.shape, 0))
    log_q = safe_log(offline.q) + r / kappa[:, None, None]
    return Objective(kappa, none, log_q, np.empty((*offline.q.shape[:2], 0)), unsupported)


def _log_ratio(d_expert: Floats, q: Floats, mix: Floats) -> tuple[Floats, Floats]:
    """log d^E/d^I where d^I > 0, zero elsewhere, and the unsupported mass (see `blend`)."""
    log_g, unsupported = blend(d_expert, q, mix)
    return np.where(q > 0, log_g - np.where(q > 0, safe_log(q), 0.0), 0.0), unsupported


def _expect(table: Floats, values: Floats) -> Floats:
    """Σ_p table(s,a,p) values(s,p), where 0 · (-inf) = 0."""
    never = (table @ np.isneginf(values)[..., None].astype(float))[..., 0] > 0
    finite = (table @ np.where(np.isneginf(values), 0.0, values)[..., None])[..., 0]
    return np.where(never, -np.inf, finite)


def bound_pairs(offline: Offline, d_expert: Floats, alpha: Floats, mix: Floats) -> Objective:
    r, unsupported = _log_ratio(d_expert, offline.q_pairs, mix)
    return _linear(offline, _expect(offline.transition, r), 1 + alpha, unsupported)


def bound_states(offline: Offline, d_expert: Floats, alpha: Floats, mix: Floats) -> Objective:
    of_states = d_expert.sum(2, keepdims=True)
    r, unsupported = _log_ratio(of_states, offline.q.sum(2, keepdims=True), mix)
    return _linear(offline, np.broadcast_to(r, offline.q.shape), 1 + alpha, unsupported)


def match_actions(offline: Offline, d_expert: Floats, alpha: Floats, mix: Floats) -> Objective:
    r, unsupported = _log_ratio(d_expert, offline.q, mix)
    return _linear(offline, r, 1 + alpha, unsupported)


def match_inferred_actions(
    offline: Offline, d_expert: Floats, alpha: Floats, mix: Floats
) -> Objective:
    unsupported = np.where(offline.q_pairs > 0, 0.0, d_expert).sum((1, 2))
    inferred = infer_actions(d_expert, offline.q, offline.transition, offline.q_pairs)
    return match_actions(offline, inferred, alpha, mix)._replace(unsupported=unsupported)


def infer_actions(d_expert: Floats, q: Floats, transition: Floats, q_pairs: Floats) -> Floats:
    """d^E(s,a) = Σ_s' d^E(s,s') p^I(a|s,s'), with the actions of the inverse dynamics model p^I.

    p^I(a|s,s') = d^I(s,a) T(s'|s,a) / d^I(s,s'). Pairs that are not in the data are left out.
    """
    weight = np.divide(d_expert, q_pairs, where=q_pairs > 0, out=np.zeros(q_pairs.shape))
    return q * (transition @ weight[..., None])[..., 0]


def opolo(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.0, mix: float | None = None
) -> Solution:
    """Minimise OPOLO's bound for pairs d_expert[s, s'], plus α KL(d ‖ d^I) as in appendix D."""
    return _solve(bound_pairs, mdp, d_expert, d_offline, alpha=alpha, mix=mix)


def smodice(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.0, mix: float | None = None
) -> Solution:
    """Minimise SMODICE's bound for the states of d_expert[s, s'], plus α KL(d ‖ d^I)."""
    return _solve(bound_states, mdp, d_expert, d_offline, alpha=alpha, mix=mix)


def demodice(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.1, mix: float | None = None
) -> Solution:
    """Match the expert's state-action pairs d_expert[s, a]."""
    return _solve(match_actions, mdp, d_expert, d_offline, alpha=alpha, mix=mix, actions=True)


def demodice_from_observation(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.1, mix: float | None = None
) -> Solution:
    """DemoDICE with the actions that the inverse dynamics model infers for d_expert[s, s']."""
    return _solve(match_inferred_actions, mdp, d_expert, d_offline, alpha=alpha, mix=mix)


def bco(mdp: MDP, d_expert, d_offline) -> Clone:
    """Clone the actions that the inverse dynamics model infers for the pairs d_expert[s, s'].

    In a state without expert pairs, or with none that the offline data contains, the policy is the
    behaviour policy.
    """
    transition, d_offline = mdp.transition, np.asarray(d_offline, float)
    if mdp.sparse:
        graph, transition = localise(transition)
        d_expert = localise_pairs(graph, d_expert)
    d_expert = np.asarray(d_expert, float)
    q_pairs = push(d_offline, transition)
    inferred = infer_actions(d_expert, d_offline, transition, q_pairs)
    policy = conditional(inferred, behaviour_policy(d_offline))
    unsupported = np.where(q_pairs > 0, 0.0, d_expert).sum((-1, -2))
    return Clone(policy, occupancy(mdp, policy), unsupported)


def bc(mdp: MDP, d_offline) -> Clone:
    """Clone the behaviour policy d^I(a|s); it is uniform in states that are not in the data."""
    policy = behaviour_policy(np.asarray(d_offline, float))
    return Clone(policy, occupancy(mdp, policy), np.zeros(policy.shape[:-2]))
