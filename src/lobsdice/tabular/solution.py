"""The results of the tabular methods."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from lobsdice.tabular.mdp import Floats


class Solution(NamedTuple):
    """The solution of one problem, or of a batch; then every field has the batch as leading axis.

    Attributes:
        policy: π[s,a]. In states without occupancy it is the behaviour policy d^I(a|s), or uniform
            if the data does not contain the state.
        occupancy: d[s,a], the discounted occupancy of `policy`. It obeys the flow constraint.
        nu: ν[s], the multipliers of the flow constraint; zero where the flow cannot go.
        mu: μ[s,s'], the multipliers of the marginalisation constraint; zero where the flow cannot
            go. It is μ[s,1] if states are matched, and has no columns in methods without μ.
        lam: λ, the multiplier of the normalisation constraint if γ = 1; otherwise zero.
        primal: the objective at `occupancy`, as a minimisation.
        dual: minus the paper's dual objective at (μ, ν), a lower bound of every primal value.
        gap: primal - dual. A small gap certifies the solution.
        converged: True if the gap is at most 1e-9 · max(1, |primal|).
        steps: the number of Newton steps.
        unsupported_expert_mass: the expert's mass on pairs that are not in the offline data.
        mix: the share of the offline distribution that was mixed into the expert's. If it is zero,
            the solution is that of the problem as stated.
        fault: the reason why a problem of a batch was not solved (`support.Fault`); zero if it was.
    """

    policy: Floats
    occupancy: Floats
    nu: Floats
    mu: Any  # sparse for a sparse MDP
    lam: Floats
    primal: Floats
    dual: Floats
    gap: Floats
    converged: Bool[np.ndarray, "..."]
    steps: Int[np.ndarray, "..."]
    unsupported_expert_mass: Floats
    mix: Floats
    fault: Int[np.ndarray, "..."]


class Clone(NamedTuple):
    """A policy in closed form, which needs no solver and no certificate."""

    policy: Floats
    occupancy: Floats
    unsupported_expert_mass: Floats
