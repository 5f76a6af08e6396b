"""Warnings about data of any format: constant features, repeated episodes, names, ends not read."""

import numpy as np

from lobsdice.data.actions import case_remarks
from lobsdice.data.display import listed
from lobsdice.data.episodes import Episodes

#: The most names in a list, so that a warning stays one line.
SHOWN = 5


def notices(episodes: Episodes) -> list[str]:
    """A sentence about each thing that is odd: constant features, repeats, names, unread ends."""
    found = []
    if (constant := np.flatnonzero(np.equal(*episodes.observation_range))).size:
        names = np.array(episodes.observation_names or range(episodes.state_size))
        found.append(f"observations are constant in {_these('column', names[constant])}")
    if (repeated := episodes.repeated).size:
        verb = "repeats an earlier one" if repeated.size == 1 else "repeat earlier ones"
        names = np.array([episodes.called(i) for i in repeated.tolist()])
        found.append(f"{_these('episode', names)} {verb}")
    found += case_remarks(episodes.action_space)
    if names := episodes.unread:
        it = "it" if len(names) == 1 else "one"
        found.append(
            f"every episode counts as truncated, although {' and '.join(map(repr, names))} may "
            f"mark ends; if {it} is true only where the task ended, name it as `terminated_column`"
            "; if it holds words, state those that mark an end as `terminated_values`"
        )
    return found


def _these(noun: str, names: np.ndarray) -> str:
    return f"{noun}{'' if len(names) == 1 else 's'} {listed(names.tolist(), SHOWN)}"
