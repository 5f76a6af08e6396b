"""LobsDICE on a finite MDP (Kim et al., NeurIPS 2022, arXiv:2202.13536), solved exactly.

    min_d  KL(d(s,s') ‖ d^E(s,s')) + α KL(d(s,a) ‖ d^I(s,a))   over stationary distributions d

    paper            here                       meaning
    d^E(s,s')        d_expert                   the expert's state pairs
    d^I(s,a)         d_offline                  the action-labelled data
    ν(s), μ(s,s')    Solution.nu, Solution.mu   multipliers of flow and marginalisation

If d cannot avoid a pair (s,s') without expert mass, the divergence is infinite. With `mix`, every
method replaces the expert's distribution by (1 - mix) d^E + mix d^I:

    mix              target
    None (default)   d^E itself; where that is infeasible, mix = 0.001 (MIX), with a warning
    0                d^E itself; an infeasible problem is an error
    a share          mixed

`Solution.mix` is the share that was mixed.
"""

import numpy as np

from lobsdice.tabular.mdp import MDP, Floats
from lobsdice.tabular.solution import Solution
from lobsdice.tabular.solver import Objective, solve
from lobsdice.tabular.support import Offline


def safe_log(p: Floats) -> Floats:
    """log p, which is -inf at zero, without a warning."""
    return np.log(p, where=p > 0, out=np.full(p.shape, -np.inf))


def blend(d_expert: Floats, q: Floats, mix: Floats) -> tuple[Floats, Floats]:
    """log((1 - mix) d^E + mix d^I), and the unsupported mass: d^E's where d^I is zero."""
    unsupported = np.where(q > 0, 0.0, d_expert).sum((1, 2))
    mix = mix[:, None, None]
    return safe_log((1 - mix) * d_expert + mix * q), unsupported


def match_pairs(offline: Offline, d_expert: Floats, alpha: Floats, mix: Floats) -> Objective:
    log_g, unsupported = blend(d_expert, offline.q_pairs, mix)
    return Objective(alpha, offline.transition, safe_log(offline.q), log_g, unsupported)


def match_states(offline: Offline, d_expert: Floats, alpha: Floats, mix: Floats) -> Objective:
    q_states = offline.q.sum(2, keepdims=True)
    log_g, unsupported = blend(d_expert.sum(2, keepdims=True), q_states, mix)
    ones = np.ones((*offline.q.shape, 1))
    return Objective(alpha, ones, safe_log(offline.q), log_g, unsupported)


def lobsdice(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.1, mix: float | None = None
) -> Solution:
    """Match the expert's state pairs d_expert[s, s'] while staying near d_offline[s, a].

    This solves eq. (52), or the problem of appendix J if γ = 1. By default it is solved as stated;
    see `mix` in the module's docstring. Inputs with a leading axis are a batch of problems; inputs
    without it are shared by all of them. Every field of the solution then has that axis. A faulty
    problem of a batch raises no error: its `converged` is False, and its `fault` says why.
    """
    return solve(match_pairs, mdp, d_expert, d_offline, alpha=alpha, mix=mix)


def lobsdice_state(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.1, mix: float | None = None
) -> Solution:
    """Match the expert's states: min KL(d(s) ‖ d^E(s)) + α KL(d ‖ d^I), eq. (25).

    d^E(s) is the first marginal of the pairs d_expert[s, s'].
    """
    return solve(match_states, mdp, d_expert, d_offline, alpha=alpha, mix=mix)
