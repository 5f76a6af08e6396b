"""Features whose units seem to differ between the demonstrations and the logs.

The magnitude of a feature in an episode is its largest absolute value there. Demonstrations and
logs may differ in where they go, but some of their episodes should have magnitudes alike. If nearly
every episode of one is many times as large as nearly every episode of the other, then one of them
is probably in millimetres and the other in metres.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from lobsdice.data.display import listed
from lobsdice.data.episodes import Episodes, check_states

#: A feature is suspicious if all magnitudes differ by more than this factor.
FACTOR = 5.0
#: So many of the episodes may be exceptions, such as one in which the machine did not move.
EXCEPTIONS = 0.02
#: Fewer logged episodes are no evidence.
FEWEST = 5
SHOWN = "the demonstrations"
#: Units that are often mixed up, by the factor between them.
COMMON = {
    1000.0: "millimetres and metres",
    100.0: "centimetres and metres",
    57.3: "degrees and radians",
}
#: A factor is recognised if it is so close to a common one: the episodes differ, too.
CLOSE = 2.0


class Unit(NamedTuple):
    """Features whose units seem to differ."""

    features: tuple[str, ...]
    factors: tuple[float, ...]
    """About how many times as large each is."""
    large: str
    """The place where they are large: the demonstrations, the logs, or a source of the logs."""
    small: str

    @property
    def remark(self) -> str:
        """All of it in a sentence."""
        one = len(self.features) == 1
        return (
            f"{'feature' if one else 'features'} {listed(self.features)} {'is' if one else 'are'} "
            f"about {_between(self.factors)} times as large in {self.large} as in {self.small}, in "
            f"every episode; if the units differ{self._guess}, convert one file with `data convert "
            "--scale`"
        )

    @property
    def _guess(self) -> str:
        middle = float(np.median(self.factors))
        apart, units = min((abs(np.log(middle / f)), units) for f, units in COMMON.items())
        return f" ({units}?)" if apart < np.log(CLOSE) else ""


def different_units(expert: Episodes, offline: Episodes) -> list[Unit]:
    """The features whose units seem to differ, in each source of the logs."""
    check_states("the expert data", expert, "the offline data", offline)
    shown, logged = _magnitudes(expert), _magnitudes(offline)
    several = offline.source is not None and len(offline.source_names) > 1
    sources = offline.source_names if several else ("the logs",)
    number = offline.source if several else np.zeros(len(offline), np.int64)
    names = offline.observation_names or tuple(map(str, range(offline.state_size)))
    found = []
    for i, source in enumerate(sources):
        if len(mine := logged[number == i]) >= FEWEST:
            found += [
                _unit(mine, shown, source, SHOWN, names),
                _unit(shown, mine, SHOWN, source, names),
            ]
    return [unit for unit in found if unit.features]


def _magnitudes(episodes: Episodes) -> Float64[np.ndarray, "episodes state"]:
    rows, starts = episodes.observations, episodes.starts
    # Two passes without a copy of all rows.
    high, low = np.maximum.reduceat(rows, starts), np.minimum.reduceat(rows, starts)
    return np.maximum(high, -low).astype(np.float64)


def _unit(
    ours: np.ndarray, theirs: np.ndarray, large: str, small: str, names: tuple[str, ...]
) -> Unit:
    """The features that are much larger in nearly all of our episodes than in theirs."""
    least = np.quantile(ours, EXCEPTIONS, axis=0, method="nearest")
    most = np.quantile(theirs, 1 - EXCEPTIONS, axis=0, method="nearest")
    # A feature that is always 0 has no units that could be seen.
    which = np.flatnonzero((least > FACTOR * most) & (most > 0))
    factors = np.median(ours[:, which], axis=0) / np.median(theirs[:, which], axis=0).clip(1e-30)
    return Unit(tuple(names[i] for i in which), tuple(factors.tolist()), large, small)


def _between(factors: Sequence[float]) -> str:
    low, high = _rounded(min(factors)), _rounded(max(factors))
    return low if low == high else f"{low} to {high}"


def _rounded(factor: float) -> str:
    """A factor with two digits."""
    return f"{float(f'{factor:.2g}'):,.10g}"
