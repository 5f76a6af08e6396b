"""Is a demonstrated step as long in time as a logged one?

Each demonstrated step s → s' is held against what the logs did from their state nearest to s: in
one step, in two, and so on. Where both were sampled at one rate a single step fits best, however
fast either moves: speeds are part of a state, so that what is near it moves alike. Where several
logged steps fit clearly better than one, the demonstrations leave states out; where several
demonstrated steps fit a logged one better, the logs do. docs/audit.md says how well that works.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from lobsdice.auditing.neighbours import nearest

#: Of more demonstrated steps every n-th is looked at.
ENOUGH = 1000
#: One step is held against up to so many of the other recording.
MOST_STEPS = 20
#: What is seen in fewer places than this says nothing.
FEW_PLACES = 20
#: Several steps fit if they miss the one by less than this share of its size, and by less than this
#: share of what a single step misses it by.
FITS, FITS_BETTER = 0.75, 0.9

Pairs = Float32[np.ndarray, "_ width"]
Episode = Int64[np.ndarray, " _"]
Jumps = Float32[np.ndarray, "_ state"]


@dataclass(frozen=True)
class Rate:
    """One step of a recording looks like several of the other."""

    demonstrated: int
    logged: int
    """The numbers of steps that look alike."""
    error: float
    """By how much the several miss the one, as a share of its size: a median."""
    error_of_one: float
    """By how much a single step misses it."""

    @property
    def remark(self) -> str:
        if self.logged > 1:
            found = f"one demonstrated step looks like {self.logged} logged ones"
        else:
            found = f"one logged step looks like {self.demonstrated} demonstrated ones"
        return (
            f"{found}, which miss it by {self.error:.0%} of its size, a single one by "
            f"{self.error_of_one:.0%}: the files may be sampled at different rates"
        )


def compare_rates(
    expert: Pairs, expert_episode: Episode, offline: Pairs, offline_episode: Episode
) -> Rate | None:
    """What speaks for different rates, if anything does; pairs (s, s') stand in their order."""
    width = expert.shape[1] // 2
    here = np.arange(0, len(expert), -(-len(expert) // ENOUGH))
    away, there = nearest(expert[here, :width], offline[:, :width])

    def demonstrated(steps: int) -> Jumps:
        return jumps(expert, expert_episode, here, steps)

    def logged(steps: int) -> Jumps:
        return jumps(offline, offline_episode, there, steps)

    found = [Rate(1, n, *errors) for n, *errors in fits(demonstrated(1), logged, away)]
    found += [Rate(n, 1, *errors) for n, *errors in fits(logged(1), demonstrated, away)]
    return min(found, key=lambda rate: rate.error, default=None)


def jumps(pairs: Pairs, episode: Episode, start: Int64[np.ndarray, " _"], steps: int) -> Jumps:
    """How far the state moves in so many steps; NaN where the episode ends before."""
    width = pairs.shape[1] // 2
    last = np.minimum(start + steps - 1, len(pairs) - 1)
    goes_on = (last == start + steps - 1) & (episode[last] == episode[start])
    moved = pairs[last, width:] - pairs[start, :width]
    moved[~goes_on] = np.nan
    return moved


def fits(
    one: Jumps, several: Callable[[int], Jumps], away: Float64[np.ndarray, " _"]
) -> Iterator[tuple[int, float, float]]:
    """How many steps fit the one better than a single step does, with the errors of both.

    A state that is farther away than the step is long says nothing about it.
    """
    near = away < np.linalg.norm(one, axis=1)
    for steps in range(2, MOST_STEPS + 1):
        jump = several(steps)
        known = near & np.isfinite(jump[:, 0])
        if known.sum() < max(FEW_PLACES, near.sum() / 2):
            return
        size, error, error_of_one = (
            float(np.median(np.linalg.norm(one[known] - guess, axis=1)))
            for guess in (0, jump[known], several(1)[known])
        )
        if error < FITS * size and error < FITS_BETTER * error_of_one:
            yield steps, error / size, error_of_one / size
