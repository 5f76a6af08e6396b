"""Sentences on how demonstrations and logged episodes end, and on what is suspicious about it.

An episode terminated if the environment ended it, in success or in failure. It was truncated if
only the recording stopped. docs/ends.md explains the sentences.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from lobsdice.data.copies import without_copies
from lobsdice.data.episodes import Episodes, check_states
from lobsdice.data.neighbours import nearest, spacings
from lobsdice.data.normaliser import Normaliser, fit_normaliser

#: An end is far from others if its distance is more than this many times the spacing, as in audits.
FACTOR = 2.0
#: A warning needs at least this share of the demonstrations.
MOST = 0.5
#: The most demonstrations whose last states are compared; of more, every n-th is taken.
COMPARED = 200
#: The number of logged states from which their usual spacing is estimated.
SAMPLE = 100
#: Demonstrations that did not terminate have a common end if they are at least so many, and if
#: their last states are nearer to each other than this share of the deviation of all states.
FEWEST, COMMON = 3, 0.2
#: A logged state is near an end if it is as near as this share of the other ends, or as some of the
#: last steps of a demonstration are long.
MOST_ENDS, LAST_STEPS = 0.9, 5
#: The fewest episodes of one length that look like a time limit, and their smallest share.
LIMITED, LIMITED_SHARE = 5, 0.1
#: The same length of all episodes looks like a time limit from so many steps on.
LONG = 100

States = Float32[np.ndarray, "_ state"]
Rows = Int64[np.ndarray, " _"]


@dataclass(frozen=True)
class Endings:
    """The ends of two datasets; sentences begin with a small letter and have no full stop."""

    summary: str
    reading: str
    """The reading of ends that suits the data, as a sentence."""
    remarks: list[str]
    warnings: list[str]
    expert: dict[str, int | None]
    """Numbers of demonstrations that terminated, were truncated, succeeded, failed; None: unknown.
    """
    offline: dict[str, int | None]
    """The same for the logged episodes."""
    far_ends: int | None
    """The number of demonstrations that end far from all ends in the logs, if both have ends."""


def compare_ends(expert: Episodes, offline: Episodes, *, whole: Episodes | None = None) -> Endings:
    """All that is known about the ends of demonstrations and logs.

    `whole` are all logs, if `offline` is only a part of them; the counts are of these.
    """
    whole = offline if whole is None else whole
    pair = _Pair.of(expert, offline, whole)
    warnings, remarks = _findings(pair)
    both = expert.terminated.any() and offline.terminated.any()
    return Endings(
        summary=describe_ends(expert, whole),
        reading=_reading(expert, offline),
        remarks=remarks,
        warnings=warnings,
        expert=count_ends(expert),
        offline=count_ends(whole),
        far_ends=int(pair.far.sum()) if both else None,
    )


def describe_ends(expert: Episodes, offline: Episodes) -> str:
    """One sentence: how many episodes of each kind terminated, were truncated, and succeeded."""
    return f"{_counted(expert, 'demonstration')}; {_counted(offline, 'logged episode')}"


def end_warnings(expert: Episodes, offline: Episodes) -> list[str]:
    """A sentence for each thing about the ends that is probably a mistake in the data."""
    return _findings(_Pair.of(expert, offline, offline))[0]


def never_near_an_end(expert: Episodes, offline: Episodes, which: Rows) -> int:
    """The number of these logged episodes that never come near an end of the demonstrations.

    0 if the demonstrations have no common end: if none terminated, and their last states are as
    far apart as their other states.
    """
    normaliser = fit_normaliser(offline)
    shown = normaliser(expert.observations)
    ends = shown[expert.ends[expert.terminated] if expert.terminated.any() else expert.ends]
    own = np.arange(len(ends))
    apart, _ = nearest(ends, ends, excluded=(own, own))
    apart = np.where(np.isinf(apart), 0, apart)
    before = np.maximum(expert.ends - LAST_STEPS, expert.starts)
    step = np.linalg.norm(shown[expert.ends] - shown[before], axis=1) / (expert.ends - before)
    if not expert.terminated.any() and (
        len(ends) < FEWEST or np.median(apart) > COMMON * np.linalg.norm(shown.std(axis=0))
    ):
        return 0
    reach = FACTOR * max(float(np.quantile(apart, MOST_ENDS)), float(np.median(step)))
    heavy = offline.select(which)
    distance, _ = nearest(normaliser(heavy.observations), ends)
    return int((np.minimum.reduceat(distance, heavy.starts) > reach).sum())


def count_ends(episodes: Episodes) -> dict[str, int | None]:
    """The numbers of episodes by their ends; those about success are None if nothing is known."""
    ended, success = int(episodes.terminated.sum()), episodes.success
    return {
        "terminated": ended,
        "truncated": len(episodes) - ended,
        "succeeded": None if success is None else int((success == 1).sum()),
        "failed": None if success is None else int((success == 0).sum()),
    }


def _counted(episodes: Episodes, noun: str) -> str:
    count, found = len(episodes), count_ends(episodes)
    ended, cut = found["terminated"], found["truncated"]
    nouns = noun if count == 1 else f"{noun}s"
    everyone = f"the only {noun}" if count == 1 else f"all {count:,} {nouns}"
    if ended and cut:
        words = f"{ended:,} of {count:,} {nouns} terminated, {cut:,} {_be(cut)} truncated"
    else:
        words = f"{everyone} {'terminated' if ended else f'{_be(count)} truncated'}"
    known = [f"{found[key]:,} {key}" for key in ("succeeded", "failed") if found[key]]
    return f"{words} ({', '.join(known)})" if known else words


def _be(count: int) -> str:
    return "was" if count == 1 else "were"


def _reading(expert: Episodes, offline: Episodes) -> str:
    if not expert.terminated.any() and not offline.terminated.any():
        return "no episode has an end, so that the option `terminal` changes nothing"
    return (
        "after an end the task begins anew (`terminal` is restart, the default; with stay, the "
        "place of the end counts more than the way there); truncated episodes have no end"
    )


def _findings(pair: "_Pair") -> tuple[list[str], list[str]]:
    """Warnings and remarks."""
    warnings = [
        _time_limit(pair.expert, "demonstrations"),
        _time_limit(pair.offline, "logged episodes"),
        _failed(pair.expert),
        _none_succeeded(pair.whole),
    ]
    remarks = []
    shown, logged = pair.expert.terminated.any(), pair.offline.terminated.any()
    if shown and not logged:
        warnings.append(_logs_never_end(pair))
    elif shown:
        warnings.append(_elsewhere(pair))
    elif logged and (found := _demonstrations_never_end(pair)):
        warnings.append(found)
    elif logged:
        remarks.append(
            "no demonstration terminated, but logged episodes did; that is right if only failures "
            "end the task"
        )
    return [sentence for sentence in warnings if sentence], remarks


def _time_limit(episodes: Episodes, nouns: str) -> str | None:
    longest = int(episodes.lengths.max())
    at_limit = episodes.lengths == longest
    ended = int((at_limit & episodes.terminated).sum())
    if ended < max(LIMITED, LIMITED_SHARE * len(episodes)):
        return None
    if at_limit.all() and longest < LONG:  # short episodes may have one length by their task
        return None
    return (
        f"{ended:,} of {len(episodes):,} {nouns} are marked as terminated after exactly "
        f"{longest:,} steps, and none took longer; if that is a time limit, set "
        f"`time_limit` to {longest}, so that they count as truncated"
    )


def _failed(expert: Episodes) -> str | None:
    failed = count_ends(expert)["failed"]
    return f"{failed:,} of {len(expert):,} demonstrations failed" if failed else None


def _none_succeeded(offline: Episodes) -> str | None:
    """A warning, if most of the logged episodes failed and none of the others succeeded."""
    found = count_ends(offline)
    failed = found["failed"] or 0
    if found["succeeded"] or failed < MOST * len(offline):
        return None
    unknown = len(offline) - failed
    counts = f"{failed:,} failed" + (f", of {unknown:,} it is not known" if unknown else "")
    return (
        f"no logged episode succeeded ({counts}): a policy can hardly learn from them to do what "
        "was demonstrated"
    )


def _logs_never_end(pair: "_Pair") -> str:
    sentence = f"demonstrations terminate, but no logged episode does{_unread(pair.offline)}"
    if pair.stops(np.arange(len(pair.offline))) < MOST:
        return f"{sentence}; the logs then do not show what follows an end"
    return (
        f"{sentence}; yet logged episodes stop where demonstrations end: mark those that ended "
        "there as terminated"
    )


def _demonstrations_never_end(pair: "_Pair") -> str | None:
    sentence = f"logged episodes terminate, but no demonstration does{_unread(pair.expert)}"
    if pair.stops(np.flatnonzero(pair.offline.terminated)) < MOST:
        return sentence if pair.expert.unread else None
    return (
        f"{sentence}; yet demonstrations stop where logged episodes terminate: mark those that "
        "ended there as terminated"
    )


def _unread(episodes: Episodes) -> str:
    names = " or ".join(map(repr, episodes.unread))
    return f" (column {names} was not read as `terminated_column`)" if names else ""


def _elsewhere(pair: "_Pair") -> str | None:
    far = pair.far
    if far.mean() < MOST:
        return None
    counts = f"{int(far.sum()):,} of {len(far):,}"
    sentence = f"demonstrations end where no logged episode terminates ({counts})"
    if pair.stops(np.flatnonzero(~pair.offline.terminated)) >= MOST:
        return (
            f"{sentence}; yet logged episodes that count as truncated stop there: mark those that "
            "ended there as terminated"
        )
    if pair.passed.mean() >= MOST:
        return f"{sentence}; logged episodes come there, but go on"
    return f"{sentence}; no logged episode comes near"


@dataclass(frozen=True, eq=False)
class _Pair:
    """Demonstrations and logs, and distances between their normalised states."""

    expert: Episodes
    offline: Episodes
    whole: Episodes
    """All logs with their copies, of which `offline` may be a part."""

    @classmethod
    def of(cls, expert: Episodes, offline: Episodes, whole: Episodes) -> "_Pair":
        """Check that the states fit each other, and leave out copies, whose spacing is none."""
        check_states("the expert data", expert, "the offline data", offline)
        return cls(expert, without_copies(offline)[0], whole)

    @cached_property
    def normaliser(self) -> Normaliser:
        return fit_normaliser(self.offline)

    @cached_property
    def states(self) -> States:
        """The states of the logs."""
        return self.normaliser(self.offline.observations)

    @cached_property
    def last(self) -> States:
        """The final states of demonstrations; if none terminated, the last states of all."""
        expert = self.expert
        rows = expert.ends[expert.terminated] if expert.terminated.any() else expert.ends
        return self.normaliser(expert.observations[rows[:: -(-len(rows) // COMPARED)]])

    @cached_property
    def nearby(self) -> tuple[Float64[np.ndarray, " n"], Rows]:
        """The distance from each of `last` to the nearest logged state, and its row."""
        return nearest(self.last, self.states)

    @cached_property
    def far(self) -> Bool[np.ndarray, " n"]:
        """True for each of `last` that is far from the final states of the logs."""
        ends = self.offline.ends[self.offline.terminated]
        distance, which = nearest(self.last, self.states[ends])
        return distance > FACTOR * self._spacing(ends[which])

    @cached_property
    def passed(self) -> Bool[np.ndarray, " n"]:
        """True for each of `last` that is near some logged state."""
        distance, row = self.nearby
        return distance <= FACTOR * self._spacing(row)

    def stops(self, episodes: Rows) -> float:
        """The share of `last` that are near the last or last but one state of such an episode."""
        ends = self.offline.ends[episodes]
        stopped = np.isin(self.nearby[1], np.concatenate([ends, ends - 1]))
        return float((stopped & self.passed).mean())

    def _spacing(self, rows: Rows) -> np.ndarray:
        """The spacing at logged states, for each of `last`: the larger of two distances.

        The one is the spacing of logged states, limited as in audits. The other is the distance to
        the nearest other of `last`, because logs may seldom reach the region of these ends.
        """
        episode = np.repeat(np.arange(len(self.offline)), self.offline.lengths + 1)
        logged, sparse = spacings(self.states, episode, rows, sample=SAMPLE)
        own = np.arange(len(self.last))
        shown, _ = nearest(self.last, self.last, excluded=(own, own))
        return np.maximum(np.minimum(logged, sparse), np.where(np.isinf(shown), 0, shown))
