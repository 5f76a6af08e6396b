"""Counts of the transitions of many trajectories, drawn without simulating each trajectory.

Of n trajectories that are in the same state at the same time, the numbers that take each (action,
successor) are multinomial. So one step of all trajectories takes one draw per state, whether there
are ten trajectories or ten thousand. The counts have exactly the distribution of a simulation.

The discounted occupancy is estimated by weighted counts. Step t has a weight proportional to γ^t,
and the weights of a trajectory sum to one. The mean of the estimate is the occupancy of the first
`horizon` steps. Its total variation from the full occupancy is at most γ^horizon.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Floats = Float[np.ndarray, "..."]


class Counts(NamedTuple):
    """Counts of each (s, a, successor) in groups of trajectories."""

    plain: Float[np.ndarray, "groups S A K"]
    discounted: Float[np.ndarray, "groups S A K"]  # weighted; one trajectory sums to 1

    def nested(self) -> "Counts":
        """Counts of each group together with all groups before it."""
        return Counts(self.plain.cumsum(0), self.discounted.cumsum(0))


def discount_weights(gamma: float, horizon: int) -> Floats:
    """(1-γ) γ^t / (1 - γ^horizon), t < horizon."""
    weights = gamma ** np.arange(horizon)
    return weights / weights.sum()


def group_sizes(totals: tuple[int, ...]) -> list[int]:
    """The sizes of groups whose cumulative sums are the ascending totals."""
    return np.diff(totals, prepend=0).tolist()


def draw_counts(
    rng: np.random.Generator,
    successors: Int[np.ndarray, "S A K"],
    probabilities: Float[np.ndarray, "S A K"],
    policy: Float[np.ndarray, "S A"],
    *,
    groups: list[int],
    weights: Floats,
) -> Counts:
    """Counts of groups of trajectories that start in s0 = 0, with one step per weight."""
    states = len(policy)
    outcomes = (policy[:, :, None] * probabilities).reshape(states, -1)
    outcomes = outcomes / outcomes.sum(-1, keepdims=True)
    arrive = np.eye(states)[successors.ravel()]
    here = np.zeros((len(groups), states), dtype=np.int64)
    here[:, 0] = groups
    plain = np.zeros((len(groups), *outcomes.shape))
    discounted = np.zeros_like(plain)
    for weight in weights:
        taken = rng.multinomial(here, outcomes).astype(float)
        plain += taken
        discounted += weight * taken
        here = (taken.reshape(len(groups), -1) @ arrive).astype(np.int64)
    shape = (len(groups), *successors.shape)
    return Counts(plain.reshape(shape), discounted.reshape(shape))
