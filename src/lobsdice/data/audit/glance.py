"""The quick part of the audit, which `lobsdice train` shows in one line.

On large data it looks at pieces of episodes, so that it takes about a second.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from lobsdice.data.audit import COVERED, NOT_COVERED, Verdict
from lobsdice.data.audit.coverage import FACTOR, distances, groups
from lobsdice.data.audit.rate import Rate, compare_rates
from lobsdice.data.audit.targets import targets
from lobsdice.data.copies import without_copies
from lobsdice.data.display import listed
from lobsdice.data.episodes import Episodes
from lobsdice.data.fills import Fill, fill_values
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.repeats import shared_rows
from lobsdice.data.rows import ranges
from lobsdice.data.units import Unit, different_units
from lobsdice.errors import plural

#: The most steps of the demonstrations and of the logs that are looked at.
MOST_EXPERT, MOST_OFFLINE = 2_000, 20_000
#: Steps of a piece of an episode: the test of the rates needs some in a row.
PIECE = 50


@dataclass(frozen=True)
class Glance:
    """The findings of a quick look at the data."""

    uncovered: float
    """The share of demonstrated transitions that are far from all logged ones."""
    units: list[Unit]
    fills: list[Fill]
    rate: Rate | None
    targets: list[str]
    """Remarks on actions that are states."""
    leaked: int
    """The number of demonstrated pairs, of those that were compared, that occur in the logs."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the coverage alone."""
        if self.uncovered <= COVERED:
            return "covered"
        return "partly covered" if self.uncovered < NOT_COVERED else "not covered"

    def sentence(self, ends: int, *, leak_allowed: bool = False) -> str:
        """One line; `ends` is the number of warnings about the ends of episodes."""
        good = self.verdict == "covered"
        shown = f"{self.uncovered:.0%} of the demonstrated transitions are far from the logs"
        leak = f"{plural(self.leaked, 'demonstrated pair')} in the logs"
        bad = [
            *([] if good else [f"{self.verdict.upper()}: {shown}"]),
            *(f"UNITS of {listed(unit.features)} seem to differ" for unit in self.units),
            *(f"FILL VALUES: {fill.remark}" for fill in self.fills),
            *([f"RATES: {self.rate.remark}"] if self.rate else []),
            *(f"ACTIONS: {remark}" for remark in self.targets),
            *([f"LEAK: {leak}"] if self.leaked and not leak_allowed else []),
            *(["ENDS: see the warnings"] if ends else []),
        ]
        fine = [
            *([f"covered ({shown})"] if good else []),
            *([] if self.units else ["units alike"]),
            *([] if self.rate else ["rates alike"]),
            *([] if ends else ["ends plausible"]),
            *([f"{leak}, as allowed"] if self.leaked and leak_allowed else []),
            *([] if self.leaked else ["no leak"]),
        ]
        return "; ".join((*bad, ", ".join(fine)) if fine else bad)


def glance(expert: Episodes, offline: Episodes) -> Glance:
    """Compare demonstrations with logs, quickly."""
    judged, _ = without_copies(offline)
    ours, theirs = _Pieces.of(expert, MOST_EXPERT), _Pieces.of(judged, MOST_OFFLINE)
    leaked = int(shared_rows(ours.pairs, [theirs.pairs]).sum())
    normaliser = fit_normaliser(offline)
    shown, logged = (
        np.concatenate([normaliser(x) for x in each.states], axis=1) for each in (ours, theirs)
    )
    distance, _, spacing, _ = distances(shown, ours.episode, logged, theirs.episode)
    ratio = np.where(distance == 0, 0.0, distance / np.maximum(spacing, np.finfo(float).tiny))
    return Glance(
        uncovered=float((ratio > FACTOR).mean()),
        units=different_units(expert, offline),
        fills=fill_values(expert, offline),
        rate=compare_rates(shown, ours.piece, logged, theirs.piece),
        targets=[target.remark for target in targets(offline)],
        leaked=leaked,
    )


@dataclass(frozen=True)
class _Pieces:
    """Steps of evenly spaced pieces of episodes."""

    states: tuple[Float32[np.ndarray, "n state"], Float32[np.ndarray, "n state"]]
    episode: Int64[np.ndarray, " n"]
    piece: Int64[np.ndarray, " n"]

    @classmethod
    def of(cls, episodes: Episodes, most: int) -> "_Pieces":
        steps = _spread(episodes, most)
        rows, episode = episodes.step_rows[steps], groups(episodes)[steps]
        begins = (np.diff(steps, prepend=-2) != 1) | (np.diff(episode, prepend=-1) != 0)
        states = episodes.observations[rows], episodes.observations[rows + 1]
        return cls(states, episode, np.cumsum(begins))

    @property
    def pairs(self) -> Float32[np.ndarray, "n width"]:
        """The pairs (s, s')."""
        return np.concatenate(self.states, axis=1)


def _spread(episodes: Episodes, most: int) -> Int64[np.ndarray, " n"]:
    """The numbers of the steps in evenly spaced pieces, or of all if they are few."""
    if episodes.steps <= most:
        return np.arange(episodes.steps)
    count = most // PIECE
    starts = np.arange(count) * (episodes.steps - PIECE) // max(count - 1, 1)
    return np.unique(ranges(starts, np.full(count, PIECE)))
