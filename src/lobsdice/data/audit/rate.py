"""Is a demonstrated step as long in time as a logged one?

Each demonstrated step s → s' is held against what the logs did from their state nearest to s: in
one step, in two, and so on. Where both were sampled at one rate a single step fits best, whatever
sensors hold or round: that a place counts depends on where it is, never on whether the step from it
is a long one, and two draws from one distribution are on average no farther apart than draws from
two, unless those of the second scatter less. Where several logged steps fit clearly better than
one, the demonstrations leave states out; where several demonstrated steps fit a logged one better,
the logs do. docs/audit.md says how well that works.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from lobsdice.data.neighbours import nearest

#: Of more demonstrated steps every n-th is looked at.
ENOUGH = 1000
#: One step is held against up to so many of the other recording.
MOST_STEPS = 20
#: Both recordings must have been at this share of the places looked at, and the logs at so many:
#: where paths merely cross, another policy looks like another rate.
MOST_PLACES, FEW_PLACES = 0.5, 20
#: Several steps fit if they miss the one by less than this share of its size and by less than this
#: share of what a single step misses it by, and if that gain is more than so many standard errors.
FITS, FITS_BETTER, SURE = 0.75, 0.9, 3
#: Equal states are told apart by a random number, this times a standard deviation: else the first
#: of them, at which a held sensor has always just changed, would be nearest to all.
TIE = 0.01

Pairs = Float32[np.ndarray, "_ width"]
Numbers = Int64[np.ndarray, " _"]
Jumps = Float32[np.ndarray, "_ state"]
Lengths = Float32[np.ndarray, " _"]


@dataclass(frozen=True)
class Rate:
    """One step of a recording looks like several of the other."""

    demonstrated: int
    logged: int
    """The numbers of steps that look alike."""
    error: float
    """By how much the several miss the one, as a share of its size: a ratio of means."""
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
    expert: Pairs, expert_episode: Numbers, offline: Pairs, offline_episode: Numbers
) -> Rate | None:
    """What speaks for different rates, if anything does; pairs (s, s') stand in their order."""
    here = np.arange(0, len(expert), -(-len(expert) // ENOUGH))
    random = np.random.default_rng(0)
    away, there = nearest(told_apart(expert[here], random), told_apart(offline, random))
    paces = pace(expert, expert_episode, here), pace(offline, offline_episode, there)
    near = away < np.minimum(*paces)
    if near.mean() < MOST_PLACES or len(np.unique(there[near])) < FEW_PLACES:
        return None
    here, there = here[near], there[near]
    demonstrated = jumps(expert, expert_episode, here)
    logged = jumps(offline, offline_episode, there)
    meetings = expert_episode[here] * (offline_episode[-1] + 1) + offline_episode[there]
    meeting = np.unique(meetings, return_inverse=True)[1]
    found = [Rate(1, n, *errors) for n, *errors in fits(demonstrated[0], logged, meeting)]
    found += [Rate(n, 1, *errors) for n, *errors in fits(logged[0], demonstrated, meeting)]
    return min(found, key=lambda rate: rate.error, default=None)


def told_apart(pairs: Pairs, random: np.random.Generator) -> Float32[np.ndarray, "_ more"]:
    """The states s, each with a small random number."""
    chance = TIE * random.random((len(pairs), 1), np.float32)
    return np.concatenate([pairs[:, : pairs.shape[1] // 2], chance], axis=1)


def pace(pairs: Pairs, episode: Numbers, at: Numbers) -> Float64[np.ndarray, " _"]:
    """The mean length of the steps around some, in the same episode."""
    width = pairs.shape[1] // 2
    steps = np.linalg.norm(pairs[:, width:] - pairs[:, :width], axis=1)
    walked = np.concatenate([[0], np.cumsum(steps, dtype=np.float64)])
    first, end = (np.searchsorted(episode, episode[at], side) for side in ("left", "right"))
    first = np.maximum(first, at - MOST_STEPS // 2)
    end = np.minimum(end, at + MOST_STEPS // 2 + 1)
    return (walked[end] - walked[first]) / (end - first)


def jumps(pairs: Pairs, episode: Numbers, start: Numbers) -> list[Jumps]:
    """How far the state moves in 1, 2, … steps; NaN where the episode ends before."""
    width = pairs.shape[1] // 2
    found = []
    for last in (start + steps for steps in range(MOST_STEPS)):
        inside = np.minimum(last, len(pairs) - 1)
        moved = pairs[inside, width:] - pairs[start, :width]
        moved[(inside < last) | (episode[inside] != episode[start])] = np.nan
        found.append(moved)
    return found


def fits(one: Jumps, several: list[Jumps], meeting: Numbers) -> Iterator[tuple[int, float, float]]:
    """How many steps fit the one better than a single step does, with the errors of both."""
    single = np.linalg.norm(one - several[0], axis=1)
    for steps, jump in enumerate(several[1:], start=2):
        missed = np.linalg.norm(one - jump, axis=1)
        known = np.isfinite(missed)
        if known.mean() < MOST_PLACES:
            return
        size = float(np.linalg.norm(one[known], axis=1).mean())
        error, error_of_one = (float(each[known].mean()) for each in (missed, single))
        better = error < FITS * size and error < FITS_BETTER * error_of_one
        if better and is_sure(single[known] - missed[known], meeting[known]):
            yield steps, error / size, error_of_one / size


def is_sure(gain: Lengths, meeting: Numbers) -> bool:
    """Whether the mean gain is not by chance, if all from one meeting of two episodes is one draw.

    Beside each other for long, two episodes gain alike at every step.
    """
    count = np.bincount(meeting)
    draws = np.count_nonzero(count)
    off = np.linalg.norm(np.bincount(meeting, gain) - count * gain.mean())
    return bool(draws > 1 and gain.sum() > SURE * off * np.sqrt(draws / (draws - 1)))
