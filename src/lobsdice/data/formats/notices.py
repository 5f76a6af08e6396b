"""Warnings about data of any format: constant features and repeated episodes."""

import numpy as np
from jaxtyping import Float32, Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.rows import CHUNK

#: The most names in a list, so that a warning stays one line.
SHOWN = 5


def notices(episodes: Episodes) -> list[str]:
    """A sentence about constant features and one about repeated episodes, if there are any."""
    found = []
    if (constant := constant_columns(episodes.observations)).size:
        names = np.array(episodes.observation_names or range(episodes.state_size))
        found.append(f"observations are constant in {_these('column', names[constant])}")
    if (repeated := episodes.repeated).size:
        verb = "repeats an earlier one" if repeated.size == 1 else "repeat earlier ones"
        found.append(f"{_these('episode', repeated)} {verb}")
    return found


def constant_columns(rows: Float32[np.ndarray, "n width"]) -> Int64[np.ndarray, " k"]:
    """The columns in which all rows are equal."""
    candidates = np.arange(rows.shape[1])
    for start in range(0, len(rows), CHUNK):
        same = (rows[start : start + CHUNK, candidates] == rows[0, candidates]).all(axis=0)
        candidates = candidates[same]
        if not candidates.size:
            break
    return candidates


def _these(noun: str, names: np.ndarray) -> str:
    shown = ", ".join(map(str, names[:SHOWN]))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{noun}{'' if len(names) == 1 else 's'} {shown}{more}"
