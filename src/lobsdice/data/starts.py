"""The distance of the logs' first states from what is demonstrated.

A policy starts where logged episodes start. If no demonstration comes near there, nothing shows
which way leads on, although the logs may cover every demonstrated step.
"""

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.neighbours import nearest
from lobsdice.data.normaliser import fit_normaliser

#: First states are far if half of them are farther than this from all demonstrated states, in
#: deviations of the logs. In worlds that are learned well it is 0.0 to 0.3, and in pointmaze 1.0.
FAR = 1.2
#: The most first states that are compared.
SAMPLE = 500


def far_starts(expert: Episodes, offline: Episodes) -> str | None:
    """A sentence if logged episodes mostly begin far from all demonstrated states; else None."""
    normaliser = fit_normaliser(offline)
    chosen = np.unique(np.linspace(0, len(offline) - 1, SAMPLE).astype(np.int64))
    starts = normaliser(offline.observations[offline.starts[chosen]])
    distances, _ = nearest(starts, normaliser(expert.observations))
    usual = float(np.median(distances))
    if usual <= FAR:
        return None
    return (
        f"half of the logged episodes begin more than {usual:.1f} standard deviations from every "
        "demonstrated state, so that little shows what to do there; demonstrate from more first "
        "states"
    )
