"""Counts of many trajectories, drawn exactly without drawing any one of them.

Trajectories that are in the same state at the same time are exchangeable: of n of them, the numbers
that take each (action, successor) are multinomial. So a step of all trajectories costs a draw a
state, be they ten or ten thousand.

The discounted occupancy is estimated by weighted counts: step t has the weight γ^t, and the weights
of a trajectory sum to one. The mean of the estimate is the occupancy of the first `horizon` steps,
which is within γ^horizon of the whole in total variation.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Floats = Float[np.ndarray, "..."]


class Counts(NamedTuple):
    """How often each (s, a, successor) was taken in groups of trajectories."""

    plain: Float[np.ndarray, "groups S A K"]
    discounted: Float[np.ndarray, "groups S A K"]  # in weights; each trajectory has one in all

    def nested(self) -> "Counts":
        """Groups joined to the ones before them."""
        return Counts(self.plain.cumsum(0), self.discounted.cumsum(0))


def discount_weights(gamma: float, horizon: int) -> Floats:
    """(1-γ) γ^t / (1 - γ^horizon), t < horizon."""
    weights = gamma ** np.arange(horizon)
    return weights / weights.sum()


def group_sizes(totals: tuple[int, ...]) -> list[int]:
    """The sizes of groups whose running sums are the (ascending) totals."""
    return np.diff(totals, prepend=0).tolist()


def draw(
    rng: np.random.Generator,
    successors: Int[np.ndarray, "S A K"],
    probabilities: Float[np.ndarray, "S A K"],
    policy: Float[np.ndarray, "S A"],
    *,
    groups: list[int],
    weights: Floats,
) -> Counts:
    """Counts of groups of trajectories from s0 = 0, each as long as there are weights."""
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
