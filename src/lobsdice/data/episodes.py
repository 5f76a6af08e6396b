"""Recorded episodes, which every file format is read into and written from.

An episode of T steps has T+1 observations, s_0 .. s_T, and T actions. All episodes of a dataset lie
one after the other in the same arrays, so that millions of steps need no Python loop.
"""

import importlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64
from numpy.typing import ArrayLike

from lobsdice.data.actions import case_remarks, common_space, in_space, with_space
from lobsdice.data.checks import check_episodes, numeric
from lobsdice.data.display import html_of, listed, text_of
from lobsdice.data.repeats import repeated_episodes
from lobsdice.data.rows import column_range, offsets, ranges
from lobsdice.data.spaces import Actions, ActionSpace, Box
from lobsdice.errors import DataWarning, LobsDICEError

#: Rows in a block of pairs.
PAIRS = 1 << 16

#: The fields of `Episodes` whose numbers are checked one by one.
NUMBERS = ("observations", "actions", "rewards")


class Facts(NamedTuple):
    """Facts that a file states about all its observations, so that nobody need read them."""

    observations: np.ndarray
    """The observations that the facts are about."""
    mean: np.ndarray
    """The mean of the states before steps."""
    deviation: np.ndarray
    """The standard deviation of the states before steps."""
    low: np.ndarray
    high: np.ndarray
    digest: str
    """A hash of all episodes."""


@dataclass(frozen=True, eq=False, repr=False)
class Episodes:
    """Episodes that have been checked. Make them with `Episodes.from_arrays`."""

    observations: Float32[np.ndarray, "rows state"]
    """T+1 rows for each episode of T steps, one episode after the other."""
    lengths: Int64[np.ndarray, " episodes"]
    """The number of steps T of each episode, at least 1."""
    terminated: Bool[np.ndarray, " episodes"]
    """True if the environment ended the episode, False if only the recording stopped."""
    actions: Actions | None = None
    """T rows for each episode, in the user's units; None if no actions were recorded."""
    rewards: Float32[np.ndarray, " steps"] | None = None
    """One number a step. Used to report returns; few algorithms learn from it, if told so."""
    action_space: ActionSpace | None = None
    source: Int64[np.ndarray, " episodes"] | None = None
    """The place in `source_names` of each episode's source, if the sources are known."""
    source_names: tuple[str, ...] = ()
    observation_names: tuple[str, ...] = ()
    """The names of the columns of `observations`, if the file has them."""
    success: Int64[np.ndarray, " episodes"] | None = None
    """1 if the episode succeeded, 0 if it failed, -1 if that is unknown; None if none is known.
    Used to describe the data, never for learning."""
    unread: tuple[str, ...] = ()
    """The names of columns of the file that may mark ends of episodes, but were not read."""
    episode_names: tuple[str, ...] = ()
    """The name of each episode in its file, such as T0137; without names they are counted."""
    stated: Facts | None = None
    """The file's facts about its observations; see `facts`."""
    valid: InitVar[bool] = False
    """True if the caller has checked all fields, so that they are not checked again."""

    def __post_init__(self, valid: bool):
        if not valid:
            check_episodes(vars(self))

    @classmethod
    def from_arrays(
        cls,
        observations: ArrayLike,
        *,
        lengths: ArrayLike,
        terminated: ArrayLike | None = None,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        action_space: ActionSpace | None = None,
        source: ArrayLike | None = None,
        source_names: Sequence[str] = (),
        observation_names: Sequence[str] = (),
        success: ArrayLike | None = None,
        unread: Sequence[str] = (),
        episode_names: Sequence[str] = (),
        checked: Collection[str] = (),
    ) -> "Episodes":
        """Episodes from arrays, lists or whatever NumPy takes; errors name the array and the row.

        Without `terminated`, every episode counts as truncated. Without `action_space`, the space
        is inferred from the actions. `success` holds 1 or true, 0 or false, and -1 if it is
        unknown. `checked` names the arrays among observations, actions and rewards whose numbers
        the caller has already checked.
        """
        lengths = numeric("episode_lengths", lengths, np.int64)
        if terminated is None:
            terminated = np.zeros(len(lengths), bool)
        if actions is not None:
            actions, action_space = with_space(actions, action_space)
        fields = {
            "observations": numeric("observations", observations, np.float32, ndim=2),
            "lengths": lengths,
            "terminated": numeric("terminated", terminated, np.bool_),
            "actions": actions,
            "rewards": None if rewards is None else numeric("rewards", rewards, np.float32),
            "action_space": action_space,
            "source": None if source is None else numeric("source", source, np.int64),
            "source_names": tuple(map(str, source_names)),
            "observation_names": tuple(map(str, observation_names)),
            "success": None if success is None else _known(numeric("success", success, np.int64)),
            "unread": tuple(map(str, unread)),
            "episode_names": tuple(map(str, episode_names)),
        }
        # Before the constructor, where a run-time type checker would raise its own errors first.
        check_episodes(fields, checked)
        return cls(**fields, valid=True)

    def __repr__(self) -> str:
        return text_of("Episodes", self._facts())

    def _repr_html_(self) -> str:
        return html_of("Episodes", self._facts())

    def _facts(self) -> dict[str, str]:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        ended = int(self.terminated.sum())
        names = self.observation_names
        facts = {
            "episodes": f"{len(self):,}, {ended:,} terminated and {len(self) - ended:,} truncated",
            "steps": f"{self.steps:,}, {low:,} to {high:,} an episode",
            "observations": f"{self.state_size}{': ' if names else ''}{listed(names)}",
            "actions": "none" if self.action_space is None else str(self.action_space),
        }
        return facts | ({"sources": listed(self.source_names)} if self.source_names else {})

    @classmethod
    def from_dataframe(cls, frame: Any, **options: Any) -> "Episodes":
        """Episodes from a table with one row a state, such as one of pandas, polars or pyarrow.

        A dictionary of columns will do, too. `options` are those of `ReadOptions`:
        `Episodes.from_dataframe(table, episode_column="run")`.
        """
        return _adapters().from_dataframe(frame, **options)

    @classmethod
    def from_transitions(
        cls,
        observations: Any,
        *,
        actions: ArrayLike | None = None,
        next_observations: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        success: ArrayLike | None = None,
        action_space: ActionSpace | None = None,
    ) -> "Episodes":
        """Episodes from arrays with one row a step.

        An episode ends after each row that is terminated or truncated, and where the next
        observation is not the observation of the next row. `observations` may also be a replay
        buffer of Stable-Baselines3, or transitions of imitation.
        """
        return _adapters().from_transitions(
            observations,
            actions=actions,
            next_observations=next_observations,
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            success=success,
            action_space=action_space,
        )

    @classmethod
    def from_episodes(cls, episodes: Any, *, action_space: ActionSpace | None = None) -> "Episodes":
        """Episodes from a list of dictionaries with observations, actions, rewards, terminated.

        T actions go with T+1 observations. Without the last observation, the last action is left
        out. Trajectories of imitation and episodes or datasets of d3rlpy and Minari are taken, too.
        """
        return _adapters().from_episodes(episodes, action_space=action_space)

    def __len__(self) -> int:
        """The number of episodes."""
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """The number of steps of all episodes together."""
        return int(self.lengths.sum())

    @property
    def state_size(self) -> int:
        """The number of columns of `observations`."""
        return self.observations.shape[1]

    @cached_property
    def starts(self) -> Int64[np.ndarray, " episodes"]:
        """The row of `observations` that holds each episode's first state."""
        return offsets(self.lengths + 1)

    @cached_property
    def ends(self) -> Int64[np.ndarray, " episodes"]:
        """The row of `observations` that holds each episode's final state."""
        return self.starts + self.lengths

    @cached_property
    def step_rows(self) -> Int64[np.ndarray, " steps"]:
        """The row of `observations` before each step; the row after the step is the next one."""
        return np.arange(self.steps) + self.step_episodes

    @cached_property
    def step_episodes(self) -> Int64[np.ndarray, " steps"]:
        """The episode of each step."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def step_numbers(self) -> Int64[np.ndarray, " steps"]:
        """The number of each step in its episode, counted from 0."""
        return np.arange(self.steps) - self.step_starts[self.step_episodes]

    @cached_property
    def step_starts(self) -> Int64[np.ndarray, " episodes"]:
        """The row of `actions` that holds each episode's first action."""
        return offsets(self.lengths)

    @property
    def facts(self) -> Facts | None:
        """The file's facts about these observations; None if it states none."""
        same = self.stated is not None and self.stated.observations is self.observations
        return self.stated if same else None

    @cached_property
    def observation_range(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest value of each column of `observations`."""
        if self.facts is not None:
            return self.facts.low.astype(np.float32), self.facts.high.astype(np.float32)
        return column_range(self.observations)

    @cached_property
    def repeated(self) -> Int64[np.ndarray, " k"]:
        """The numbers of the episodes whose observations equal those of an earlier episode."""
        return repeated_episodes(self.observations, self.lengths)

    def pair_blocks(self) -> Iterator[Float32[np.ndarray, "_ pair"]]:
        """Yield the pairs (s, s') of all steps in order, some at a time."""
        for start in range(0, len(self.observations), PAIRS):
            rows = self.observations[start : start + PAIRS + 1]
            first, last = np.searchsorted(self.ends, [start, start + PAIRS])
            here = self.ends[first:last] - start
            steps = np.ones(len(rows) - 1, bool)
            steps[here[here < len(steps)]] = False
            yield np.concatenate([rows[:-1][steps], rows[1:][steps]], axis=1)

    def called(self, episode: int | np.integer) -> str:
        """The user's name of an episode: its name or number, and its source if there are more."""
        name = self.episode_names[episode] if self.episode_names else str(episode)
        if self.source is None or len(self.source_names) < 2:
            return name
        return f"{name} of {self.source_names[self.source[episode]]}"

    def returns(self) -> np.ndarray | None:
        """The sum of each episode's rewards, if rewards were recorded."""
        if self.rewards is None:
            return None
        return np.add.reduceat(self.rewards, self.step_starts, dtype=np.float64)

    def without_actions(self) -> "Episodes":
        """The same episodes without their actions."""
        return replace(self, actions=None, action_space=None, valid=True)

    def select(self, which: ArrayLike | slice) -> "Episodes":
        """The episodes with these numbers, in this order."""
        index = np.arange(len(self))[which if isinstance(which, slice) else np.asarray(which)]
        if not len(index):
            raise LobsDICEError("the selection has no episodes")
        lengths = self.lengths[index]
        rows = ranges(self.starts[index], lengths + 1)
        steps = ranges(self.step_starts[index], lengths)
        return replace(
            self,
            observations=self.observations[rows],
            lengths=lengths,
            terminated=self.terminated[index],
            actions=None if self.actions is None else self.actions[steps],
            rewards=None if self.rewards is None else self.rewards[steps],
            source=None if self.source is None else self.source[index],
            success=None if self.success is None else self.success[index],
            episode_names=tuple(self.episode_names[i] for i in index if self.episode_names),
            valid=True,
        )

    def spread(self, steps: int) -> "Episodes":
        """Evenly spaced episodes with about so many steps together, or all episodes."""
        count = max(1, len(self) * steps // max(self.steps, 1))
        if count >= len(self):
            return self
        return self.select(np.arange(count) * len(self) // count)

    def episode_of(self, steps: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        """The episodes of some steps; `step_episodes` holds those of all, in much memory."""
        return np.searchsorted(self.step_starts, steps, side="right") - 1

    def first(self, n: int, *, skip: int = 0) -> "Episodes":
        """The `n` episodes that follow the first `skip` ones."""
        if n < 1 or skip < 0:
            raise LobsDICEError(f"cannot take {n} episodes after the first {skip}")
        if skip + n > len(self):
            raise LobsDICEError(
                f"asked for {n} episodes after the first {skip}, but there are only {len(self)}"
            )
        return self.select(slice(skip, skip + n))


def _adapters() -> Any:
    """The module that reads objects. It knows the formats, which the users of episodes need not."""
    return importlib.import_module("lobsdice.data.adapters")


def concatenate(parts: Sequence[Episodes], called: Sequence[str] = ()) -> Episodes:
    """All episodes of `parts` in one dataset, with their sources.

    Observations and action spaces must agree. `called` are the names of the parts in errors.
    """
    if not parts:
        raise LobsDICEError("there are no episodes to put together")
    head, called = parts[0], called or [f"part {i}" for i in range(len(parts))]
    for name, part in zip(called, parts, strict=True):
        check_states(name, part, called[0], head)
        check_action_order(name, part, called[0], head)
    space = _space_of_all(parts, called)
    known = {remark for part in parts for remark in case_remarks(part.action_space)}
    for remark in (remark for remark in case_remarks(space) if remark not in known):
        warnings.warn(remark, DataWarning, stacklevel=2)
    names = tuple(dict.fromkeys(name for part in parts for name in part.source_names))
    labelled = all(part.source is not None for part in parts)
    arrays = ("observations", "rewards", "lengths", "terminated")
    return Episodes(
        **{key: _together([getattr(part, key) for part in parts]) for key in arrays},
        actions=None if space is None else np.concatenate([numbered_in(p, space) for p in parts]),
        action_space=space,
        source=np.concatenate([_relabel(p, names) for p in parts]) if labelled else None,
        source_names=names if labelled else (),
        observation_names=head.observation_names,
        success=_successes(parts),
        unread=tuple(dict.fromkeys(name for part in parts for name in part.unread)),
        episode_names=_names(parts),
        valid=True,
    )


def _names(parts: Sequence[Episodes]) -> tuple[str, ...]:
    """The names of all episodes; those without names keep the numbers of their part."""
    if not any(part.episode_names for part in parts):
        return ()
    return tuple(n for part in parts for n in part.episode_names or map(str, range(len(part))))


def _successes(parts: Sequence[Episodes]) -> np.ndarray | None:
    if all(part.success is None for part in parts):
        return None
    unknown = (np.full(len(part), -1, np.int64) for part in parts)
    known = (u if p.success is None else p.success for p, u in zip(parts, unknown, strict=True))
    return np.concatenate(list(known))


def numbered_in(episodes: Episodes, space: ActionSpace) -> Actions:
    """The actions of episodes, as those of a space with all of their names."""
    assert episodes.actions is not None and episodes.action_space is not None
    return in_space(episodes.actions, episodes.action_space, space)


def _space_of_all(parts: Sequence[Episodes], called: Sequence[str]) -> ActionSpace | None:
    """The action space that all parts share; an error names the first one that differs."""
    if all(part.action_space is None for part in parts):
        return None
    if (without := next((i for i, p in enumerate(parts) if p.actions is None), None)) is not None:
        others = next(called[i] for i, part in enumerate(parts) if part.actions is not None)
        raise LobsDICEError(f"{called[without]} has no actions, but {others} has some")
    spaces = [part.action_space for part in parts if part.action_space is not None]
    found = common_space(spaces, [part.actions for part in parts if part.actions is not None])
    if found is not None:
        return found
    i = next(i for i, space in enumerate(spaces) if space != spaces[0])
    stated = "`action_low` and `action_high`" if isinstance(spaces[i], Box) else "`action_count`"
    raise LobsDICEError(
        f"{called[i]} has the action space {spaces[i]}, but {called[0]} has {spaces[0]}; "
        f"if both are the same space, state it with {stated}"
    )


def check_action_order(name: str, episodes: Episodes, other: str, others: Episodes) -> None:
    """Raise an error if two datasets have the same columns of actions in different orders."""
    spaces = (episodes.action_space, others.action_space)
    if all(isinstance(space, Box) for space in spaces):
        ours, theirs = (space.names for space in spaces if space is not None)
        _check_order(name, ours, other, theirs, "action")


def require_episodes(**given: Any) -> None:
    """Raise an error that says how to make episodes, if an argument is something else."""
    for name, found in given.items():
        if not isinstance(found, Episodes):
            raise LobsDICEError(f"`{name}` is {_what(found)}")


def _what(found: Any) -> str:
    """A sentence on what a user gave in place of episodes, and what to do."""
    if isinstance(found, str | PathLike):
        return f"the name of a file; read it with ld.read({str(found)!r})"
    if isinstance(found, list | tuple) and any(isinstance(item, Episodes) for item in found):
        return "a list of episodes; put them together with ld.concatenate(list)"
    if hasattr(found, "columns"):
        return "a table; make episodes of it with ld.Episodes.from_dataframe(table, ...)"
    if hasattr(found, "expert") and hasattr(found, "offline"):
        return "data that is prepared already; give the episodes that it was made of"
    return (
        f"a value of type {type(found).__name__}, not episodes; make them of arrays with "
        "ld.Episodes.from_arrays(observations, lengths=..., actions=...), or read a file with "
        "ld.read"
    )


def check_states(name: str, episodes: Episodes, other: str, others: Episodes) -> None:
    """Raise an error if two datasets differ in the number or the order of observed features."""
    ours, theirs = episodes.observation_names, others.observation_names
    if episodes.state_size != others.state_size:
        raise LobsDICEError(
            f"{name} has observations of {episodes.state_size} numbers, but {other} has "
            f"observations of {others.state_size}{_lacking(name, ours, other, theirs)}"
        )
    _check_order(name, ours, other, theirs, "observation")


def renamed(name: str, episodes: Episodes, other: str, others: Episodes) -> list[str]:
    """A sentence if two datasets name some of their features alike, and others not."""
    pairs = list(zip(episodes.observation_names, others.observation_names, strict=False))
    # Whoever states a factor has looked at the column, whose name then tells the factor.
    differ = [(a, b) for a, b in pairs if a != b and "*" not in a + b]
    if not differ or all(a != b for a, b in pairs):
        return []
    listing = listed([f"'{a}' is taken for '{b}'" for a, b in differ])
    return [f"{name} has columns of other names than {other}: {listing}"]


def _lacking(name: str, ours: tuple[str, ...], other: str, theirs: tuple[str, ...]) -> str:
    """The columns that only one of two datasets has, if they share some."""
    if not {*ours} & {*theirs}:
        return ""
    lacks = {
        name: [x for x in theirs if x not in ours],
        other: [x for x in ours if x not in theirs],
    }
    return "".join(f"; {who} lacks {listed(columns)}" for who, columns in lacks.items() if columns)


def _check_order(
    name: str, ours: tuple[str, ...], other: str, theirs: tuple[str, ...], what: str
) -> None:
    # Different names may mean the same features; a name in another place cannot. Columns without
    # names are called by their places in the file, which mean nothing.
    if len(ours) != len(theirs) or all(column.isdecimal() for column in ours):
        return
    pairs = enumerate(zip(ours, theirs, strict=True))
    place = next((i for i, (a, b) in pairs if a != b and a in theirs), None)
    if place is not None:
        raise LobsDICEError(
            f"{name} has its {what}s in another order than {other}: column {place} is "
            f"'{ours[place]}', not '{theirs[place]}'; list the columns in one order with "
            f"`{what}_columns`"
        )


def mixture(sources: Mapping[str, Episodes]) -> Episodes:
    """All episodes of several named sources; each episode remembers its source."""
    return concatenate(
        [
            replace(part, source=np.zeros(len(part), np.int64), source_names=(name,), valid=True)
            for name, part in sources.items()
        ],
        called=list(sources),
    )


def _known(success: np.ndarray) -> np.ndarray | None:
    return None if (success == -1).all() else success


def _together(arrays: list) -> Any:
    return None if any(a is None for a in arrays) else np.concatenate(arrays)


def _relabel(part: Episodes, names: tuple[str, ...]) -> np.ndarray:
    return np.array([names.index(n) for n in part.source_names], np.int64)[part.source]
