"""Exact solvers of the same problems as the neural methods, on finite MDPs."""

from lobsdice.tabular.baselines import (
    bc,
    bco,
    demodice,
    demodice_from_observation,
    opolo,
    smodice,
)
from lobsdice.tabular.ends import with_ends
from lobsdice.tabular.estimates import Estimates, estimate, truncation_loss
from lobsdice.tabular.lobsdice import lobsdice, lobsdice_state
from lobsdice.tabular.mdp import (
    MDP,
    action_value,
    from_counts,
    greedy,
    occupancy,
    optimal_action_value,
    pair_occupancy,
    softmax,
    total_variation,
    value,
)
from lobsdice.tabular.pwdice import Transport, pwdice
from lobsdice.tabular.reference import gradient_descent, single_sample
from lobsdice.tabular.solution import Clone, Solution

__all__ = [
    "MDP",
    "Clone",
    "Estimates",
    "Solution",
    "Transport",
    "action_value",
    "bc",
    "bco",
    "demodice",
    "demodice_from_observation",
    "estimate",
    "from_counts",
    "gradient_descent",
    "greedy",
    "lobsdice",
    "lobsdice_state",
    "occupancy",
    "opolo",
    "optimal_action_value",
    "pair_occupancy",
    "pwdice",
    "single_sample",
    "smodice",
    "softmax",
    "total_variation",
    "truncation_loss",
    "value",
    "with_ends",
]
