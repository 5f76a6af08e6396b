"""What a trained run makes of its data: the weight d/d^I of each recorded transition and episode.

Only algorithms of the DICE kind have weights: those with a method `log_weights`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from lobsdice.algorithms.base import Algorithm, Labelled
from lobsdice.data import Data
from lobsdice.duals import Values
from lobsdice.errors import LobsDICEError

#: Rows that pass through the networks at once, so that a million of them need little memory.
ROWS_AT_ONCE = 2**15

RowWeights = Float64[np.ndarray, " n"]


def row_weights(algorithm: Algorithm, nets: Any, data: Data) -> RowWeights:
    """The share of each offline row in the learned distribution d, as a run's networks see it.

    `nets` are those of one run (of a fleet's state, `jax.tree.map(lambda x: x[i], state.nets)`).
    Shares sum to one, unless all weights are zero, as those of χ² may be. Row i is row i of
    `data.offline`, a transition of the offline episode `data.episode[i]`. Episodes have rows in the
    order of their steps, but for what `prepare` does with terminal steps: `drop` leaves them out,
    and `absorbing` adds, at the very end, one row for each episode that terminated.
    """
    if not hasattr(algorithm, "log_weights"):
        raise LobsDICEError(f"{type(algorithm).__name__} does not weigh the offline data")
    return shares(_all_log_weights(algorithm, nets, data))


def shares(log_weights: RowWeights) -> RowWeights:
    """Weights divided by their sum; zero where all of them are."""
    top = log_weights.max()
    w = np.exp(log_weights - top) if top > -np.inf else np.zeros_like(log_weights)
    return w / max(w.sum(), 1.0)


def episode_weights(
    weights: RowWeights, data: Data, episodes: int
) -> Float64[np.ndarray, " episodes"]:
    """The share of each of so many offline episodes: the sum of those of its rows.

    0 for an episode without any, such as a single terminal step that was dropped.
    """
    if data.episode is None:
        raise LobsDICEError("the data does not say which episode each transition is of")
    return np.bincount(data.episode, weights, minlength=episodes)


def _all_log_weights(algorithm: Algorithm, nets: Any, data: Data) -> RowWeights:
    n = len(data.offline.s)
    size = min(ROWS_AT_ONCE, n)
    found = []
    for first in range(0, n, size):
        # Past the end the last row stands in: one compiled program serves pieces of one size.
        rows = np.minimum(np.arange(first, first + size), n - 1)
        piece = Labelled(*(jnp.asarray(x[rows]) for x in data.offline))
        found.append(np.asarray(_log_weights(algorithm, nets, piece), np.float64))
    return np.concatenate(found)[:n]


@jax.jit
def _log_weights(algorithm: Any, nets: Any, rows: Labelled) -> Values:
    return algorithm.log_weights(nets, rows)
