"""How demonstrations and logged episodes end, in words, and what is suspicious about it.

An episode terminated if the environment ended it, in success or in failure. It was truncated if
only the recording stopped. docs/ends.md explains what each sentence here means.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.neighbours import nearest
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.repeats import distinct_rows

#: An end is far from all others if its distance is more than this many times the spacing there.
FACTOR = 2.0
#: A sentence is about the demonstrations if it holds for at least this share of them.
MOST = 0.5
#: The most demonstrations whose last states are compared; of more, every n-th is taken.
COMPARED = 200
#: The fewest episodes of equal length that look like a time limit, and their share.
LIMITED, LIMITED_SHARE = 5, 0.1

States = Float32[np.ndarray, "_ state"]
Rows = Int64[np.ndarray, " _"]


def describe_ends(expert: Episodes, offline: Episodes) -> str:
    """One sentence: how many episodes of each kind terminated, were truncated, and succeeded."""
    parts = (_counted(expert, "demonstration"), _counted(offline, "logged episode"))
    return "; ".join(parts)


def end_warnings(expert: Episodes, offline: Episodes) -> list[str]:
    """A sentence for each thing about the ends that is probably a mistake in the data."""
    found = [_time_limit(expert, "demonstrations"), _time_limit(offline, "logged episodes")]
    if expert.terminated.any() and not offline.terminated.any():
        found.append(_logs_never_end(expert, offline))
    elif expert.terminated.any():
        found.append(_elsewhere(expert, offline))
    elif offline.terminated.any():
        found.append(_demonstrations_never_end(expert, offline))
    return [sentence for sentence in found if sentence]


def end_remarks(expert: Episodes, offline: Episodes) -> list[str]:
    """A sentence for each thing about the ends that is worth knowing, but may well be right."""
    if not expert.terminated.any() and not offline.terminated.any():
        return ["no episode terminated, so that `--terminal` changes nothing"]
    if not expert.terminated.any() and not _demonstrations_never_end(expert, offline):
        return [
            "no demonstration terminated, but logged episodes did: that is right if only failures "
            "end the task"
        ]
    return []


def _counted(episodes: Episodes, noun: str) -> str:
    count, ended = len(episodes), int(episodes.terminated.sum())
    nouns = noun if count == 1 else f"{noun}s"
    if ended == count:
        words = f"{_all(count)} {nouns} terminated"
    elif not ended:
        words = f"{_all(count)} {nouns} {'was' if count == 1 else 'were'} truncated"
    else:
        words = f"{ended:,} of {count:,} {nouns} terminated, {count - ended:,} truncated"
    return f"{words}{_successes(episodes)}"


def _all(count: int) -> str:
    return "the only" if count == 1 else f"all {count:,}"


def _successes(episodes: Episodes) -> str:
    if episodes.success is None:
        return ""
    kinds = {"succeeded": 1, "failed": 0, "unknown": -1}
    counts = {name: int((episodes.success == value).sum()) for name, value in kinds.items()}
    return f" ({', '.join(f'{count:,} {name}' for name, count in counts.items() if count)})"


def _logs_never_end(expert: Episodes, offline: Episodes) -> str:
    sentence = "demonstrations terminate, but no logged episode does"
    if offline.unread:
        sentence += f" ({_unread(offline)})"
    last = np.arange(len(offline))
    if _nearest_is_last(expert, offline, last) >= MOST:
        sentence += (
            "; yet logged episodes stop where demonstrations end, so that they probably terminated "
            "there, too, and should be marked"
        )
    return f"{sentence}; the logs then show nothing of what follows an end"


def _demonstrations_never_end(expert: Episodes, offline: Episodes) -> str | None:
    ended = np.flatnonzero(offline.terminated)
    stop_there = _nearest_is_last(expert, offline, ended) >= MOST
    if not stop_there and not expert.unread:
        return None
    sentence = "logged episodes terminate, but no demonstration does"
    if expert.unread:
        sentence += f" ({_unread(expert)})"
    if stop_there:
        sentence += (
            "; yet demonstrations stop where logged episodes terminate, so that they probably "
            "terminated, too, and should be marked"
        )
    return sentence


def _unread(episodes: Episodes) -> str:
    names = ", ".join(f"`{name}`" for name in episodes.unread)
    plural = len(episodes.unread) > 1
    return (
        f"the {'columns' if plural else 'column'} {names} of the file may mark ends; "
        f"`--terminated-column {episodes.unread[0]}` reads {'the first' if plural else 'it'}"
    )


def _elsewhere(expert: Episodes, offline: Episodes) -> str | None:
    far = far_ends(expert, offline)
    if far.mean() < MOST:
        return None
    return (
        f"{int(far.sum())} of {len(far)} demonstrations end where no logged episode ends; either "
        "the logs never reach such an end, or their episodes went on or were cut there"
    )


def _time_limit(episodes: Episodes, nouns: str) -> str | None:
    """A warning if many episodes that count as terminated have the same, greatest length."""
    longest = int(episodes.lengths.max())
    equal = episodes.lengths == longest
    ended = int((equal & episodes.terminated).sum())
    varied = (episodes.lengths < longest).any()
    if not varied or ended < max(LIMITED, LIMITED_SHARE * len(episodes)):
        return None
    return (
        f"{ended:,} of {len(episodes):,} {nouns} terminated after exactly {longest:,} steps, and "
        "none took longer: a time limit probably truncated them, and they should not be marked as "
        "terminated"
    )


def far_ends(expert: Episodes, offline: Episodes) -> Bool[np.ndarray, " n"]:
    """True for each demonstration's end that is far from the ends of all logged episodes.

    Far is more than `FACTOR` times the larger of two spacings: between logged states, at the
    nearest logged end, and between the ends of the demonstrations.
    """
    ours = _Table.of(expert, offline).expert[_some(expert.ends[expert.terminated])]
    table = _Table.of(expert, offline)
    ends = np.flatnonzero(offline.terminated)
    distance, neighbour = nearest(ours, table.offline[offline.ends[ends]])
    spacing = np.maximum(_spacing(table.offline, offline, ends[neighbour]), _apart(ours))
    return distance > FACTOR * spacing


class _Table(NamedTuple):
    """The normalised states of both."""

    expert: States
    offline: States

    @classmethod
    def of(cls, expert: Episodes, offline: Episodes) -> "_Table":
        normaliser = fit_normaliser(offline)
        return cls(normaliser(expert.observations), normaliser(offline.observations))


def _spacing(states: States, offline: Episodes, episodes: Rows) -> np.ndarray:
    """The distance from the last state of each episode to the nearest other state of another."""
    points, place = distinct_rows(states)
    group = np.repeat(np.arange(len(offline)), offline.lengths + 1)[points]
    asked = place[offline.ends[episodes]]
    excluded = (group[asked], group)
    return nearest(states[points[asked]], states[points], excluded=excluded)[0]


def _apart(ends: States) -> np.ndarray | float:
    """The distance from each end to the nearest other one, 0 if there is only one."""
    if len(ends) == 1:
        return 0.0
    own = np.arange(len(ends))
    return nearest(ends, ends, excluded=(own, own))[0]


def _nearest_is_last(expert: Episodes, offline: Episodes, episodes: Rows) -> float:
    """The share of demonstrations whose last state is nearest to a last state of these episodes.

    The state one step before counts, too.
    """
    table = _Table.of(expert, offline)
    _, row = nearest(table.expert[_some(expert.ends)], table.offline)
    ends = offline.ends[episodes]
    return float(np.isin(row, np.concatenate([ends, ends - 1])).mean())


def _some(rows: Rows) -> Rows:
    return rows[:: -(-len(rows) // COMPARED)]
