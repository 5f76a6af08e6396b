"""The errors of a learned world on held-out rows of the logs."""

import numpy as np
from jaxtyping import Float32, Float64, Int64
from scipy.special import ndtr

from lobsdice.data.prepare import Data
from lobsdice.data.spaces import Box
from lobsdice.environments.learned import LearnedWorld, Mixture, States

#: The share of held-out movements that should lie in the intervals that are checked.
INTERVAL = 0.9
#: The smallest variance of a movement that counts, in units of the logs' movements.
TINY = 1e-12

Finals = Float32[np.ndarray, "e state"]


def measure(
    world: LearnedWorld, data: Data, rows: Int64[np.ndarray, " n"], ends: Finals
) -> tuple[dict[str, float], Float64[np.ndarray, " n"]]:
    """The errors of a world on some rows and ends of the logs, and the members' disagreement there.

    `unexplained` is the mean squared error of the movement, as a share of its variance: 0 is
    perfect and 1 is no better than the mean movement. `in_interval` is the share of movements in
    their 90 % interval. `miscalibration` is the mean distance of the predicted quantiles from the
    true ones. If there are ends, `expected_ends` is the mean probability of an end there, and
    `end_error` the mean squared error of that probability in all states, as a share of its
    variance.
    """
    s, a, s_next = data.offline.take(rows)
    space = world.action_space
    mixture = world.mixtures(s, space.decode(a) if isinstance(space, Box) else a)
    moved = (s_next - s) / world.move_scale
    expected = mixture.expected.mean(axis=0) / world.move_scale
    places = quantiles(mixture, s_next - s)
    variance = max(float(np.mean((moved - moved.mean(axis=0)) ** 2)), TINY)
    found = {
        "unexplained": float(np.mean((moved - expected) ** 2)) / variance,
        "in_interval": float(np.mean(np.abs(places - 0.5) <= INTERVAL / 2)),
        "miscalibration": miscalibration(places),
    }
    if len(ends):
        found |= _of_ends(world, data, s, ends)
    return found, world.disagreement(mixture).astype(np.float64)


def quantiles(mixture: Mixture, moved: np.ndarray) -> Float64[np.ndarray, "n state"]:
    """The predicted probability of a smaller movement, for each movement and feature.

    The prediction is that of all members together. If it is right, these numbers are uniform.
    """
    z = (moved[:, None] - mixture.mean) / mixture.std
    share = np.exp(mixture.log_share)[..., None]
    return (share * ndtr(z.astype(np.float64))).sum(axis=2).mean(axis=0)


def miscalibration(places: Float64[np.ndarray, "n state"]) -> float:
    """The mean distance of sorted quantiles from evenly spaced ones; 0.25 if all are alike."""
    n = len(places)
    even = (np.arange(n) + 0.5) / n
    return float(np.mean(np.abs(np.sort(places, axis=0) - even[:, None])))


def _of_ends(world: LearnedWorld, data: Data, s: States, ends: Finals) -> dict[str, float]:
    """The probability of an end where episodes end, and its squared error everywhere."""
    # Rows and ends have the weight that all of their kind have in the logs.
    count = len(ends_of(data))
    share = count / (count + data.offline.size)
    going, ended = (world.ends(x).mean(axis=0) for x in (s, ends))
    error = (1 - share) * np.mean(going**2) + share * np.mean((1 - ended) ** 2)
    return {
        "expected_ends": float(np.mean(ended)),
        "end_error": float(error / (share * (1 - share))),
    }


def ends_of(data: Data) -> Finals:
    """The final states of the logged episodes that terminated."""
    return data.init[:0] if data.ends is None else data.ends.offline
