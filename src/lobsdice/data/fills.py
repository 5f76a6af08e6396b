"""Values such as -9999 that stand for a missing measurement.

A fill value lies far from all other values of its feature. Rare events lie far away too, such as
a contact. So it must also be the same number again and again beside a feature that moves, or be a
number that recorders use: nines, or the largest or smallest integer.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from lobsdice.data.episodes import Episodes, check_states
from lobsdice.errors import plural

#: A fill value is this many times as far from the nearest other value as these are from each other.
FACTOR = 10.0
#: A feature moves if the rest of its values are so many different numbers, and if none of these
#: has more than this share of the rows.
DIFFERENT, MOST_ALIKE = 20, 0.5
#: So many rows must hold a value that is not a code; one event may be in two copies of an episode.
FEWEST = 3
#: At most this share of the rows holds a fill value.
MOST = 0.25
#: Rows from which the usual range of a feature is estimated before all rows are looked at.
SAMPLE = 20_000
#: Numbers that recorders use: 999, 9999, ..., the limits of integers, and almost the largest float.
NINES = tuple(float(10**digits - 1) for digits in range(3, 10))
LIMITS = tuple(float(2**bits - less) for bits in (15, 16, 31, 32) for less in (0, 1))
HUGE = 1e20
#: The places of values.
SHOWN, LOGS = "the demonstrations", "the logs"

Column = Float32[np.ndarray, " rows"]


class Fill(NamedTuple):
    """A value of a feature that probably stands for a missing measurement."""

    feature: str
    value: float
    rows: int
    """The number of rows that hold it."""
    where: str
    """The place that holds it: the demonstrations or the logs."""

    @property
    def remark(self) -> str:
        """All of it in a sentence."""
        return (
            f"feature {self.feature} has the value {self.value:.9g} in "
            f"{plural(self.rows, 'row')} of {self.where}, far from all others: a fill value?"
        )


def fill_values(expert: Episodes, offline: Episodes) -> list[Fill]:
    """The fill values in demonstrations and logs; both together are the scale of a feature."""
    check_states("the expert data", expert, "the offline data", offline)
    both = {SHOWN: expert, LOGS: offline}
    names = offline.observation_names or tuple(map(str, range(offline.state_size)))
    found = []
    for i in _suspicious(expert, offline):
        columns = {where: episodes.observations[:, i] for where, episodes in both.items()}
        for value in _Feature.of(np.concatenate(list(columns.values()))).fills():
            counts = {where: int((column == value).sum()) for where, column in columns.items()}
            found += [Fill(names[i], value, n, where) for where, n in counts.items() if n]
    return found


def usual_width(episodes: Episodes) -> Float32[np.ndarray, " width"]:
    """The range that the middle half of the values of each feature lies in, from a sample."""
    rows = episodes.observations[:: -(-len(episodes.observations) // SAMPLE)]
    quarter, rest = np.quantile(rows, (0.25, 0.75), axis=0)
    return (rest - quarter).astype(np.float32)


def _suspicious(expert: Episodes, offline: Episodes) -> list[int]:
    """The features whose extremes are far beyond the values of most rows."""
    (low, high), (other_low, other_high) = expert.observation_range, offline.observation_range
    width = np.maximum(high, other_high).astype(np.float64) - np.minimum(low, other_low)
    return np.flatnonzero(width > FACTOR * usual_width(offline)).tolist()


@dataclass(frozen=True, eq=False)
class _Feature:
    """The values of a feature without the smallest and the largest, and these two."""

    values: Column
    inner: Float32[np.ndarray, " inner"]
    low: float
    high: float

    @classmethod
    def of(cls, values: Column) -> "_Feature":
        low, high = float(values.min()), float(values.max())
        return cls(values, values[(values != low) & (values != high)], low, high)

    def fills(self) -> list[float]:
        """The extremes that are fill values."""
        if not self.inner.size:
            return []
        below, above = float(self.inner.min()), float(self.inner.max())
        width = above - below
        gaps = {self.low: below - self.low, self.high: self.high - above}
        # If only one of the two is far away, the other belongs to the rest.
        far = [value for value, gap in gaps.items() if gap > FACTOR * width]
        return [value for value in far if self._fills(value)]

    def _fills(self, value: float) -> bool:
        which: Bool[np.ndarray, " rows"] = self.values == value
        count = int(which.sum())
        if count > MOST * len(which):
            return False
        return _is_code(value) or (count >= FEWEST and self._moves())

    def _moves(self) -> bool:
        different, counts = np.unique(self.inner, return_counts=True)
        return len(different) >= DIFFERENT and bool(counts.max() <= MOST_ALIKE * len(self.inner))


def _is_code(value: float) -> bool:
    """True for numbers that recorders write where they have no measurement."""
    size = abs(value)
    return size > HUGE or size in NINES or any(np.float32(size) == np.float32(x) for x in LIMITS)
