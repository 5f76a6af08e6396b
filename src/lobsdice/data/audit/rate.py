"""A test for different sampling rates of the demonstrations and the logs (the offline data).

Each demonstrated step s → s' is compared with the logged steps from the logged state nearest to s:
with one step, with two together, and so on. At equal rates a single step fits best. If several
logged steps fit clearly better than one, the demonstrations leave states out. If several
demonstrated steps fit a logged one better, the logs leave states out.

Sensors that hold or round their values should not mislead the test, because steps are chosen by
the state they start from, not by their length. docs/audit.md shows how well the test works.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from lobsdice.data.neighbours import nearest

#: The most demonstrated steps that are compared; of more, every n-th is taken.
ENOUGH = 1000
#: The most steps that together are compared with one.
MOST_STEPS = 20
#: There is evidence only if at least this share of the demonstrated states is near logged ones, and
#: these are at least so many: where paths merely cross, another policy looks like another rate.
MOST_PLACES, FEW_PLACES = 0.5, 20
#: Several steps fit one step better than a single step does if their error is below FITS times the
#: size of the one step and below FITS_BETTER times the error of the single step, and if the gain
#: over the single step is more than SURE standard errors.
FITS, FITS_BETTER, SURE = 0.75, 0.9, 3
#: The size of the random number that tells equal states apart, in standard deviations. Without it
#: the first of equal states, where a held sensor has just changed, would always be the nearest.
TIE = 0.01

Pairs = Float32[np.ndarray, "_ width"]
Numbers = Int64[np.ndarray, " _"]
Jumps = Float32[np.ndarray, "_ state"]
Lengths = Float32[np.ndarray, " _"]


@dataclass(frozen=True)
class Rate:
    """Evidence that one step of a recording is like several steps of the other."""

    demonstrated: int
    """The number of demonstrated steps that are like `logged` logged steps."""
    logged: int
    error: float
    """The mean error of the several steps, divided by the mean size of the one step."""
    error_of_one: float
    """The same for a single step in place of the several."""

    @property
    def remark(self) -> str:
        """The evidence in a sentence."""
        if self.logged > 1:
            found = f"one demonstrated step looks like {self.logged} logged steps"
        else:
            found = f"one logged step looks like {self.demonstrated} demonstrated steps"
        return (
            f"{found} (their error is {self.error:.0%} of its size, that of a single step "
            f"{self.error_of_one:.0%}): the files may have different sampling rates"
        )


def compare_rates(
    expert: Pairs, expert_episode: Numbers, offline: Pairs, offline_episode: Numbers
) -> Rate | None:
    """The evidence for different rates, if there is any; pairs (s, s') are in recorded order."""
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
    """The states s, each with a small random number appended; see `TIE`."""
    chance = TIE * random.random((len(pairs), 1), np.float32)
    return np.concatenate([pairs[:, : pairs.shape[1] // 2], chance], axis=1)


def pace(pairs: Pairs, episode: Numbers, at: Numbers) -> Float64[np.ndarray, " _"]:
    """The mean length of the steps around each step of `at`, in the same episode."""
    width = pairs.shape[1] // 2
    steps = np.linalg.norm(pairs[:, width:] - pairs[:, :width], axis=1)
    walked = np.concatenate([[0], np.cumsum(steps, dtype=np.float64)])
    first, end = (np.searchsorted(episode, episode[at], side) for side in ("left", "right"))
    first = np.maximum(first, at - MOST_STEPS // 2)
    end = np.minimum(end, at + MOST_STEPS // 2 + 1)
    return (walked[end] - walked[first]) / (end - first)


def jumps(pairs: Pairs, episode: Numbers, start: Numbers) -> list[Jumps]:
    """The changes of the state in 1, 2, … steps; NaN if the episode ends before."""
    width = pairs.shape[1] // 2
    found = []
    for last in (start + steps for steps in range(MOST_STEPS)):
        inside = np.minimum(last, len(pairs) - 1)
        moved = pairs[inside, width:] - pairs[start, :width]
        moved[(inside < last) | (episode[inside] != episode[start])] = np.nan
        found.append(moved)
    return found


def fits(one: Jumps, several: list[Jumps], meeting: Numbers) -> Iterator[tuple[int, float, float]]:
    """Yield the numbers of steps that fit one step better than a single step, with both errors."""
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
    """True if the mean gain is significant, where each meeting of two episodes counts as one draw.

    While two episodes run side by side, their gains are alike at every step.
    """
    count = np.bincount(meeting)
    draws = np.count_nonzero(count)
    off = np.linalg.norm(np.bincount(meeting, gain) - count * gain.mean())
    return bool(draws > 1 and gain.sum() > SURE * off * np.sqrt(draws / (draws - 1)))
