"""Gaps in time inside an episode, which would otherwise become one long transition."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from lobsdice.errors import plural

#: Between two rows of an episode, more than this many usual steps are a gap: two of whole numbers,
#: and about three of times, because clocks jitter.
OF_WHOLE_NUMBERS, OF_TIMES = 1.5, 2.5

Elapsed = Float64[np.ndarray, " kept"]


def elapsed(
    times: np.ndarray, order: Int64[np.ndarray, " kept"], episode: Int64[np.ndarray, " rows"]
) -> Elapsed:
    """The time between each row of `order` and the row before.

    It is 0 at the first row of an episode. `times` and `episode` are those of the table's rows.
    """
    passed = np.diff(times[order].astype(np.float64), prepend=0)
    passed[np.diff(episode[order], prepend=-1) != 0] = 0
    return passed


@dataclass(frozen=True)
class Gaps:
    """The gaps of a table, in the order of its episodes."""

    at: Bool[np.ndarray, " kept"]
    """True for each row that follows a gap."""
    longest: int
    """The place in the order of the row after the longest gap."""
    passed: float
    """The length of the longest gap."""
    usual: float
    """The usual step."""

    @classmethod
    def find(cls, passed: Elapsed, most: float | None) -> "Gaps | None":
        """The gaps of more than `most`; without it, those of several usual steps."""
        inside = passed[passed > 0]
        if not inside.size:
            return None
        usual = float(np.median(inside))
        whole = bool((inside == np.round(inside)).all())
        limit = (OF_WHOLE_NUMBERS if whole else OF_TIMES) * usual if most is None else most
        at = passed > limit
        if not at.any():
            return None
        longest = int(passed.argmax())
        return cls(at, longest, float(passed[longest]), usual)

    def sentence(self, name: str, row: int, *, unit: str = "", split: bool) -> str:
        """A warning; `name` is the episode of the longest gap, `row` is the row after it."""
        count = plural(int(self.at.sum()), "gap")
        where = (
            f"{count} in time inside episodes, the longest of {self.passed:g}{unit} before row "
            f"{row} of episode {name}, where steps usually take {self.usual:g}{unit}"
        )
        if split:
            return f"{where}; episodes were split there"
        return f"{where}; each became one transition: `max_gap` splits episodes there"
