"""The errors of a learned world on held-out rows of the logs."""

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import ndtr

from lobsdice.data.prepare import Data
from lobsdice.data.spaces import Box
from lobsdice.environments.learned import LearnedWorld, Mixture

#: The share of held-out movements that should lie in the intervals that are checked.
INTERVAL = 0.9
#: The smallest variance of a movement that counts, in units of the logs' movements.
TINY = 1e-12


def measure(
    world: LearnedWorld, data: Data, rows: Int64[np.ndarray, " n"]
) -> tuple[dict[str, float], Float64[np.ndarray, " n"]]:
    """The errors of a world on some rows of the logs, and the members' disagreement there.

    `unexplained` is the mean squared error of the movement, as a share of its variance: 0 is
    perfect and 1 is no better than the mean movement. `in_interval` is the share of movements in
    their 90 % interval. `miscalibration` is the mean distance of the predicted quantiles from the
    true ones. `end_error` is the mean squared error of the probability of an end, as a share of
    its variance.
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
        "end_error": _end_error(world, data, s),
    }
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


def _end_error(world: LearnedWorld, data: Data, s: np.ndarray) -> float:
    """The squared error of the probability of an end; 0 if the logs have no ends."""
    final = data.ends.offline if data.ends is not None else data.init[:0]
    if not len(final):
        return 0.0
    # Ends are few, so all count here. They have the weight that they have in the logs.
    share = len(final) / (len(final) + data.offline.size)
    going, ended = (world.ends(x).mean(axis=0) for x in (s, final))
    error = (1 - share) * np.mean(going**2) + share * np.mean((1 - ended) ** 2)
    return float(error / (share * (1 - share)))
