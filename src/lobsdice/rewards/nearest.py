"""The distance of each logged pair (s, s') from the nearest demonstrated pair.

The rewards of SEABO (Lyu et al., ICLR 2024) and the weights of nearest-trajectory cloning are
functions of it. Distances are right to 0.1 %: matrix products find the neighbour, and where
rounding could have hidden a nearer one by more, the search is repeated with twice the digits.
"""

import numpy as np
from jaxtyping import Float32, Float64

from lobsdice.data.neighbours import nearest
from lobsdice.data.prepare import Data
from lobsdice.rewards.scores import Advance, Scores, beyond, ended_of

#: A squared distance below this share of the squared length of a row is searched for again. The
#: products of float32 are off by up to 4e-6 of it, so that other distances are right to 0.1 %.
CLOSE = 2e-3
#: Rows that are searched for again at once.
BLOCK = 512

Rows = Float32[np.ndarray, "_ width"]
Distances = Float64[np.ndarray, " _"]


def score_nearest(data: Data, *, raw: bool, advance: Advance = lambda n: None) -> Scores:
    """Distances to the nearest demonstrated pair, and the usual one between demonstrations.

    With `raw` they are in the units of the files, else between normalised states. At an end the
    final state repeats: its pair is compared with the demonstrations' ends too.
    """
    scale = data.normaliser.scale if raw else np.ones_like(data.normaliser.scale)

    scale = np.tile(scale, 2)
    shown = data.expert.pairs * scale
    # Block by block: the pairs of all logs would take several times the memory of their states.
    blocks = (distances(pairs * scale, shown, advance) for pairs in data.offline.pair_blocks())
    steps = np.concatenate([block.astype(np.float32) for block in blocks])
    last = data.offline.take(np.flatnonzero(ended_of(data))).s_next
    ends = [last[:0] if data.ends is None else data.ends.expert, last]
    known, asked = (np.tile(states, 2) * scale for states in ends)
    after = distances(asked, np.concatenate([shown, known])).astype(np.float32)
    return Scores(steps, beyond(steps, after, data), usual_distance(data, shown))


def distances(queries: Rows, points: Rows, advance: Advance = lambda n: None) -> Distances:
    """The distance from each query to its nearest point."""
    centre = points.mean(axis=0)
    queries, points = queries - centre, points - centre
    found, _ = nearest(queries, points, advance=advance)
    close = np.flatnonzero(found**2 < CLOSE * np.einsum("ij,ij->i", queries, queries))
    exact = points.astype(np.float64)
    half_squares = np.einsum("ij,ij->i", exact, exact) / 2
    for start in range(0, len(close), BLOCK):
        rows = close[start : start + BLOCK]
        x = queries[rows].astype(np.float64)
        at = (x @ exact.T - half_squares).argmax(axis=1)
        found[rows] = np.minimum(found[rows], np.linalg.norm(x - exact[at], axis=1))
    return found


def usual_distance(data: Data, shown: Rows) -> float:
    """The median distance of a demonstrated pair to the nearest one of another demonstration.

    If there is only one demonstration, to the nearest other pair in it.
    """
    episode = data.expert_episode
    if episode is None or (episode == episode[0]).all():
        episode = np.arange(len(shown))
    found, _ = nearest(shown, shown, excluded=(episode, episode))
    finite = found[np.isfinite(found)]
    if not len(finite):
        return 1.0
    # Demonstrations of a world with few states repeat one another; then any distance is unusual.
    largest = max(float(np.linalg.norm(shown, axis=1).max()), 1e-6)
    return max(float(np.median(finite)), float(np.finfo(np.float32).eps) * largest)
