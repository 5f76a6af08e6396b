"""What the solvers return."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

Floats = Float[np.ndarray, "..."]


class Solution(NamedTuple):
    """The answer to one problem, or to many: then every field has the batch as leading axis.

    Attributes:
        policy: π[s,a]. Where the occupancy is zero it is the behaviour policy d^I(a|s), and uniform
            where the data has no action either.
        occupancy: d[s,a], the discounted occupancy of `policy`. It obeys the flow constraint.
        nu: ν[s], the multipliers of the flow constraint; zero where the flow cannot go.
        mu: μ[s,s'], the multipliers of the marginalisation constraint (μ[s,1] when states are
            matched, without columns for the methods that have none); zero where the flow cannot go.
        lam: λ, the multiplier of the normalisation constraint when γ = 1; else zero.
        primal: the objective at `occupancy`, as a minimisation.
        dual: minus the paper's dual objective at (μ, ν): a lower bound of every primal value.
        gap: primal - dual; it certifies the answer.
        converged: whether the gap is below 1e-9 of max(1, |primal|).
        steps: Newton steps taken.
        unsupported_expert_mass: expert mass on what the offline data never shows.
        fault: why a problem of a batch was not solved (`support.Fault`); zero if it was.
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
    fault: Int[np.ndarray, "..."]


class Clone(NamedTuple):
    """A policy that is a closed form of the counts: nothing to solve, nothing to certify."""

    policy: Floats
    occupancy: Floats
    unsupported_expert_mass: Floats
