"""Recorded episodes, which every file format is read into and written from.

An episode of T steps has T+1 observations, s_0 .. s_T, and T actions. All episodes of a dataset lie
one after the other in the same arrays, so that millions of steps need no Python loop.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64
from numpy.typing import ArrayLike

from lobsdice.data.actions import with_space
from lobsdice.data.checks import check_episodes, numeric
from lobsdice.data.repeats import repeated_episodes
from lobsdice.data.rows import column_range, offsets, ranges
from lobsdice.data.spaces import Actions, ActionSpace, Box
from lobsdice.errors import LobsDICEError

#: The fields of `Episodes` whose numbers are checked one by one.
NUMBERS = ("observations", "actions", "rewards")


@dataclass(frozen=True, eq=False)
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
    """One number a step. Used to report returns, never for learning."""
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
        }
        # Before the constructor, where a run-time type checker would raise its own errors first.
        check_episodes(fields, checked)
        return cls(**fields, valid=True)

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

    @cached_property
    def observation_range(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest value of each column of `observations`."""
        return column_range(self.observations)

    @cached_property
    def repeated(self) -> Int64[np.ndarray, " k"]:
        """The numbers of the episodes whose observations equal those of an earlier episode."""
        return repeated_episodes(self.observations, self.lengths)

    def returns(self) -> np.ndarray | None:
        """The sum of each episode's rewards, if rewards were recorded."""
        if self.rewards is None:
            return None
        return np.add.reduceat(self.rewards.astype(np.float64), self.step_starts)

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
            valid=True,
        )

    def first(self, n: int, *, skip: int = 0) -> "Episodes":
        """The `n` episodes that follow the first `skip` ones."""
        if n < 1 or skip < 0:
            raise LobsDICEError(f"cannot take {n} episodes after the first {skip}")
        if skip + n > len(self):
            raise LobsDICEError(
                f"asked for {n} episodes after the first {skip}, but there are only {len(self)}"
            )
        return self.select(slice(skip, skip + n))


def concatenate(parts: Sequence[Episodes], called: Sequence[str] = ()) -> Episodes:
    """All episodes of `parts` in one dataset, with their sources.

    Observations and action spaces must agree. `called` are the names of the parts in errors.
    """
    if not parts:
        raise LobsDICEError("there are no episodes to put together")
    head, called = parts[0], called or [f"part {i}" for i in range(len(parts))]
    for name, part in zip(called, parts, strict=True):
        check_states(name, part, called[0], head)
        _check_same_space(name, part.action_space, called[0], head.action_space)
    names = tuple(dict.fromkeys(name for part in parts for name in part.source_names))
    labelled = all(part.source is not None for part in parts)
    arrays = (*NUMBERS, "lengths", "terminated")
    return Episodes(
        **{key: _together([getattr(part, key) for part in parts]) for key in arrays},
        action_space=head.action_space,
        source=np.concatenate([_relabel(p, names) for p in parts]) if labelled else None,
        source_names=names if labelled else (),
        observation_names=head.observation_names,
        success=_successes(parts),
        unread=tuple(dict.fromkeys(name for part in parts for name in part.unread)),
        valid=True,
    )


def _successes(parts: Sequence[Episodes]) -> np.ndarray | None:
    if all(part.success is None for part in parts):
        return None
    unknown = (np.full(len(part), -1, np.int64) for part in parts)
    known = (u if p.success is None else p.success for p, u in zip(parts, unknown, strict=True))
    return np.concatenate(list(known))


def _check_same_space(
    name: str, space: ActionSpace | None, other: str, others: ActionSpace | None
) -> None:
    if space == others:
        return
    if space is None or others is None:
        without, with_them = (name, other) if space is None else (other, name)
        raise LobsDICEError(f"{without} has no actions, but {with_them} has some")
    stated = "`action_low` and `action_high`" if isinstance(space, Box) else "`action_count`"
    raise LobsDICEError(
        f"{name} has the action space {space}, but {other} has {others}; "
        f"if both are the same space, state it with {stated}"
    )


def check_states(name: str, episodes: Episodes, other: str, others: Episodes) -> None:
    """Raise an error if two datasets differ in the number or the order of observed features."""
    if episodes.state_size != others.state_size:
        raise LobsDICEError(
            f"{name} has observations of {episodes.state_size} numbers, "
            f"but {other} has observations of {others.state_size}"
        )
    ours, theirs = episodes.observation_names, others.observation_names
    # Different names may mean the same features; the same names in another order cannot.
    if ours != theirs and sorted(ours) == sorted(theirs):
        place = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1)
        raise LobsDICEError(
            f"{name} has its observations in another order than {other}: column {place} is "
            f"'{ours[place]}', not '{theirs[place]}'; list the columns in one order with "
            "`observation_columns`"
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
