"""Recorded episodes, with their ends: what every file format is read into.

An episode of T steps has T+1 observations, s_0 .. s_T, and T actions. All episodes of a set lie one
after the other in the same arrays, so that millions of steps cost no Python loop.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Int64
from numpy.typing import ArrayLike

from lobsdice.data.spaces import FLOAT32_MAX, ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError

#: Rows looked at in one go, so that checks of large arrays stay in the processor's cache.
CHUNK = 1 << 14

Actions = Float32[np.ndarray, "steps action"] | Int64[np.ndarray, " steps"]


@dataclass(frozen=True, eq=False)
class Episodes:
    """A set of episodes; one that exists is valid. Make it with `Episodes.from_arrays`."""

    observations: Float32[np.ndarray, "rows state"]
    """T+1 rows for each episode of T steps, episode after episode."""
    lengths: Int64[np.ndarray, " episodes"]
    """T, the number of steps, of each episode; at least 1."""
    terminated: Bool[np.ndarray, " episodes"]
    """True where the environment ended the episode, False where the recording was cut."""
    actions: Actions | None = None
    """T rows for each episode, in the user's units; None for state-only recordings."""
    rewards: Float32[np.ndarray, " steps"] | None = None
    """Never used for learning; kept to report returns."""
    action_space: ActionSpace | None = None
    source: Int64[np.ndarray, " episodes"] | None = None
    """Which of `source_names` each episode comes from, where several sources are mixed."""
    source_names: tuple[str, ...] = ()
    observation_names: tuple[str, ...] = ()
    """What the numbers of an observation are called, where the file says so."""
    checked: InitVar[bool] = False
    """For readers of large files that have looked at every number while it was in the cache."""

    def __post_init__(self, checked: bool):
        arrays = ("observations", "terminated", "actions", "rewards", "source")
        _check_lengths(self.lengths, {key: getattr(self, key) for key in arrays})
        if self.observations.shape[1] == 0:
            raise LobsDICEError("observations have no columns")
        _check_source(self)
        if len(self.observation_names) not in (0, self.state_size):
            raise LobsDICEError(
                f"observations have {self.state_size} columns, "
                f"but {len(self.observation_names)} observation_names"
            )
        if (self.actions is None) != (self.action_space is None):
            raise LobsDICEError("actions and their action space come together or not at all")
        if not checked:
            self._check_numbers()

    def _check_numbers(self) -> None:
        check_finite("observations", self.observations)
        if self.rewards is not None:
            check_finite("rewards", self.rewards[:, None])
        if self.actions is not None and self.action_space is not None:
            check_actions(self.actions, self.action_space)

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
    ) -> "Episodes":
        """Episodes from anything array-like, converted to the types above; errors name key and row.

        Without `terminated` every episode counts as truncated. Without `action_space` it is
        `infer_space(actions)`.
        """
        lengths = _numeric("episode_lengths", lengths, np.int64)
        if terminated is None:
            terminated = np.zeros(len(lengths), bool)
        if actions is not None:
            actions = as_actions(actions)
            action_space = action_space or infer_space(actions)
            if isinstance(action_space, Box) and actions.dtype == np.int64:
                actions = actions[:, None].astype(np.float32)
        arrays = {
            "observations": _numeric("observations", observations, np.float32, ndim=2),
            "terminated": _numeric("terminated", terminated, np.bool_),
            "actions": actions,
            "rewards": None
            if rewards is None
            else _numeric("rewards", rewards, np.float32, ndim=1),
            "source": None if source is None else _numeric("source", source, np.int64, ndim=1),
        }
        # Before the constructor, where shapes checked at run time would speak first.
        _check_lengths(lengths, arrays)
        return cls(
            lengths=lengths,
            action_space=action_space,
            source_names=tuple(map(str, source_names)),
            observation_names=tuple(map(str, observation_names)),
            **arrays,
        )

    def __len__(self) -> int:
        """The number of episodes."""
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """The number of transitions in all episodes."""
        return int(self.lengths.sum())

    @property
    def state_size(self) -> int:
        """How many numbers an observation has."""
        return self.observations.shape[1]

    @cached_property
    def starts(self) -> Int64[np.ndarray, " episodes"]:
        """The row of `observations` that holds each episode's first state."""
        return _offsets(self.lengths + 1)

    @cached_property
    def ends(self) -> Int64[np.ndarray, " episodes"]:
        """The row of `observations` that holds each episode's final state."""
        return self.starts + self.lengths

    @cached_property
    def step_rows(self) -> Int64[np.ndarray, " steps"]:
        """The row of `observations` that each step leaves; the step enters the row below it."""
        return np.arange(self.steps) + self.step_episodes

    @cached_property
    def step_episodes(self) -> Int64[np.ndarray, " steps"]:
        """The episode of each step."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def step_numbers(self) -> Int64[np.ndarray, " steps"]:
        """The number of each step in its episode, from 0."""
        return np.arange(self.steps) - self.step_starts[self.step_episodes]

    @cached_property
    def step_starts(self) -> Int64[np.ndarray, " episodes"]:
        """The row of `actions` that holds each episode's first action."""
        return _offsets(self.lengths)

    @cached_property
    def observation_range(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest value of each column of `observations`."""
        return column_range(self.observations)

    @cached_property
    def repeated(self) -> Int64[np.ndarray, " k"]:
        """The numbers of the episodes whose observations equal those of an earlier episode."""
        return _duplicates(self)

    def returns(self) -> np.ndarray | None:
        """The sum of each episode's rewards, where they were recorded."""
        if self.rewards is None:
            return None
        return np.add.reduceat(self.rewards.astype(np.float64), self.step_starts)

    def without_actions(self) -> "Episodes":
        """The same recordings as an observer sees them."""
        return replace(self, actions=None, action_space=None)

    def select(self, which: ArrayLike | slice) -> "Episodes":
        """The episodes with these numbers, in this order."""
        index = np.arange(len(self))[which if isinstance(which, slice) else np.asarray(which)]
        if not len(index):
            raise LobsDICEError("the selection leaves no episodes")
        lengths = self.lengths[index]
        rows = _ranges(self.starts[index], lengths + 1)
        steps = _ranges(self.step_starts[index], lengths)
        return replace(
            self,
            observations=self.observations[rows],
            lengths=lengths,
            terminated=self.terminated[index],
            actions=None if self.actions is None else self.actions[steps],
            rewards=None if self.rewards is None else self.rewards[steps],
            source=None if self.source is None else self.source[index],
        )

    def first(self, n: int, *, skip: int = 0) -> "Episodes":
        """The first `n` episodes after the first `skip`, so that two selections can be disjoint."""
        if n < 1 or skip < 0:
            raise LobsDICEError(f"cannot take {n} episodes after the first {skip}")
        if skip + n > len(self):
            raise LobsDICEError(
                f"asked for {n} episodes after the first {skip}, but there are only {len(self)}"
            )
        return self.select(slice(skip, skip + n))


def concatenate(parts: Sequence[Episodes], called: Sequence[str] = ()) -> Episodes:
    """All episodes of `parts`, which must agree in what they record; source labels are kept.

    Errors speak of them as they are `called`, or by their numbers.
    """
    if not parts:
        raise LobsDICEError("there are no episodes to put together")
    head, called = parts[0], called or [f"part {i}" for i in range(len(parts))]
    for name, part in zip(called, parts, strict=True):
        check_states(name, part, called[0], head)
        _check_same_space(name, part.action_space, called[0], head.action_space)
    names = tuple(dict.fromkeys(name for part in parts for name in part.source_names))
    labelled = all(part.source is not None for part in parts)
    return Episodes(
        observations=np.concatenate([p.observations for p in parts]),
        lengths=np.concatenate([p.lengths for p in parts]),
        terminated=np.concatenate([p.terminated for p in parts]),
        actions=_together([p.actions for p in parts]),
        rewards=_together([p.rewards for p in parts]),
        action_space=head.action_space,
        source=np.concatenate([_relabel(p, names) for p in parts]) if labelled else None,
        source_names=names if labelled else (),
        observation_names=head.observation_names,
    )


def _check_same_space(
    name: str, space: ActionSpace | None, other: str, others: ActionSpace | None
) -> None:
    if space == others:
        return
    if space is None or others is None:
        without, with_them = (name, other) if space is None else (other, name)
        raise LobsDICEError(f"{without} has no actions, but {with_them} has")
    same = "`action_low` and `action_high`" if isinstance(space, Box) else "`action_count`"
    raise LobsDICEError(
        f"{name} has the actions {space}, {other} has {others}; "
        f"if they are the same, say so with {same}"
    )


def check_states(name: str, episodes: Episodes, other: str, others: Episodes) -> None:
    """Raise if two sets cannot observe the same things in the same order."""
    if episodes.state_size != others.state_size:
        raise LobsDICEError(
            f"{name} has observations of {episodes.state_size} numbers, "
            f"{other} has {others.state_size}"
        )
    ours, theirs = episodes.observation_names, others.observation_names
    # Other names may mean the same; the same names in another order cannot.
    if ours != theirs and sorted(ours) == sorted(theirs):
        place = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1)
        raise LobsDICEError(
            f"{name} has its observations in another order than {other}: column {place} is "
            f"'{ours[place]}', not '{theirs[place]}'; name them one by one with "
            "`observation_columns`"
        )


def mixture(sources: Mapping[str, Episodes]) -> Episodes:
    """The episodes of several named sources, each episode labelled with its source."""
    return concatenate(
        [
            replace(part, source=np.zeros(len(part), np.int64), source_names=(name,))
            for name, part in sources.items()
        ],
        called=list(sources),
    )


def as_actions(actions: ArrayLike) -> Actions:
    """Integers of shape (steps,) for discrete actions, float32 of shape (steps, size) otherwise."""
    array = np.asarray(actions)
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise LobsDICEError(f"actions must be numbers, not {array.dtype}")
    if array.dtype.kind in "biu":
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise LobsDICEError(
                f"actions holds integers of shape {array.shape}; discrete actions are one integer "
                "a step, continuous actions must be floats"
            )
        return array.astype(np.int64, copy=False)
    if array.ndim == 1:
        array = array[:, None]
    return _numeric("actions", array, np.float32, ndim=2)


def infer_space(actions: Actions) -> ActionSpace:
    """The space of actions that came without one.

    Integers: as many actions as the largest one needs. Reals: [-1, 1] where they all fit, otherwise
    the smallest and largest value of each column (widened where a column is constant).
    """
    if not len(actions):
        raise LobsDICEError("actions is empty")
    if actions.dtype == np.int64:
        return Discrete(max(int(actions.max()), 0) + 1)
    low, high = (x.astype(np.float64) for x in column_range(actions))
    if not np.isfinite([low, high]).all():
        check_finite("actions", actions)
    if (low >= -1).all() and (high <= 1).all():
        return Box.of(-np.ones_like(low), np.ones_like(high))
    # A constant column needs some width; 1 would vanish in the rounding of very large values.
    margin = np.where(low == high, np.maximum(1, 1e-3 * np.abs(low)), 0)
    return Box.of(*np.clip([low - margin, high + margin], -FLOAT32_MAX, FLOAT32_MAX))


def column_range(rows: Float32[np.ndarray, "n width"]) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of each column; NaN where a column holds NaN."""
    # Several rows side by side make the inner loop long enough for vector instructions.
    fold = max(1, min(len(rows), 512 // rows.shape[1]))
    whole = len(rows) // fold * fold
    lows, highs = [rows[whole:]], [rows[whole:]]
    for _, block in _chunks(rows[:whole].reshape(-1, fold * rows.shape[1]), CHUNK // fold):
        lows.append(block.min(axis=0).reshape(fold, -1))
        highs.append(block.max(axis=0).reshape(fold, -1))
    return np.concatenate(lows).min(axis=0), np.concatenate(highs).max(axis=0)


def _duplicates(episodes: Episodes) -> Int64[np.ndarray, " k"]:
    x = episodes.observations
    ends = np.concatenate([x[episodes.starts], x[episodes.ends]], axis=1)
    twins = _twins(row_hashes(ends) + episodes.lengths.astype(np.uint64))
    # Equal first and last states are cheap to find and rare; only those are looked at in full.
    suspects = np.flatnonzero(np.bincount(twins, minlength=len(episodes))[twins] > 1)
    if not suspects.size:
        return suspects
    hashes = [_episode_hashes(episodes, some) for some in _batches(episodes, suspects)]
    twins = np.arange(len(episodes))
    twins[suspects] = suspects[_twins(np.concatenate(hashes))]
    copies = np.flatnonzero(
        (twins != np.arange(len(episodes))) & (episodes.lengths == episodes.lengths[twins])
    )
    same = [_same(episodes, some, twins[some]) for some in _batches(episodes, copies)]
    return copies[np.concatenate([*same, np.empty(0, bool)])]


def row_hashes(rows: Float32[np.ndarray, "n width"]) -> np.ndarray:
    """A 64-bit number for each row, equal for equal rows (0.0 and -0.0 counting as equal)."""
    factors = np.random.default_rng(0).integers(
        1, 1 << 63, rows.shape[1], dtype=np.uint64
    ) | np.uint64(1)
    hashes = np.empty(len(rows), np.uint64)
    for start, chunk in _chunks(rows):
        bits = (chunk + np.float32(0)).view(np.uint32).astype(np.uint64)
        hashes[start : start + len(chunk)] = _mixed(bits * factors).sum(axis=1, dtype=np.uint64)
    return hashes


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """High bits brought down and spread, so that sums of hashes do not cancel by their pattern."""
    numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return numbers ^ (numbers >> np.uint64(29))


def _twins(keys: np.ndarray) -> np.ndarray:
    """For each key the place where the same key occurs first."""
    _, earliest, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return earliest[inverse]


def _episode_hashes(episodes: Episodes, which: np.ndarray) -> np.ndarray:
    sizes = episodes.lengths[which] + 1
    hashes = row_hashes(episodes.observations[_ranges(episodes.starts[which], sizes)])
    # The place of a row counts: the same states in another order are another episode.
    places = _ranges(np.zeros_like(sizes), sizes).astype(np.uint64)
    return np.add.reduceat(_mixed(hashes ^ _mixed(places)), _offsets(sizes))


def _same(episodes: Episodes, some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether the observations of two episodes of the same length are equal, for many pairs."""
    x, starts, sizes = episodes.observations, episodes.starts, episodes.lengths[some] + 1
    pairs = (x[_ranges(starts[i], sizes)] for i in (some, others))
    return np.logical_and.reduceat(np.equal(*pairs).all(axis=1), _offsets(sizes))


def _batches(episodes: Episodes, which: np.ndarray) -> list[np.ndarray]:
    """`which` in groups of some hundred thousand rows, to bound the memory that copies take."""
    rows = np.cumsum(episodes.lengths[which] + 1)
    cuts = np.searchsorted(rows, np.arange(16 * CHUNK, rows[-1] if rows.size else 0, 16 * CHUNK))
    return [batch for batch in np.split(which, np.unique(cuts)) if batch.size]


def _check_lengths(lengths: np.ndarray, arrays: Mapping[str, np.ndarray | None]) -> None:
    if not len(lengths):
        raise LobsDICEError("there are no episodes")
    if (short := np.flatnonzero(lengths < 1)).size:
        raise LobsDICEError(
            f"episode_lengths row {short[0]} is {lengths[short[0]]}; an episode has at least 1 step"
        )
    steps, count = int(lengths.sum()), len(lengths)
    for key, array in arrays.items():
        wanted, why = {
            "observations": (steps + count, "T+1 for each episode of T steps"),
            "actions": (steps, "one a step"),
            "rewards": (steps, "one a step"),
        }.get(key, (count, "one an episode"))
        if array is not None and len(array) != wanted:
            raise LobsDICEError(
                f"{key} has {len(array)} rows, "
                f"but the {count} episode lengths need {wanted} ({why})"
            )


def _check_source(e: Episodes) -> None:
    if e.source is None:
        return
    if (bad := np.flatnonzero((e.source < 0) | (e.source >= len(e.source_names)))).size:
        raise LobsDICEError(
            f"source row {bad[0]} is {e.source[bad[0]]}, "
            f"but there are {len(e.source_names)} source names"
        )


def check_finite(key: str, rows: np.ndarray) -> None:
    """Raise an error that names the first row and column that is NaN or infinite."""
    for start, chunk in _chunks(rows):
        # Minimum and maximum carry NaN and infinity along and need no large temporary.
        if not np.isfinite([chunk.min(), chunk.max()]).all():
            row, column = np.argwhere(~np.isfinite(chunk))[0]
            raise LobsDICEError(f"{key} row {start + row}, column {column} is {chunk[row, column]}")


def check_actions(actions: Actions, space: ActionSpace) -> None:
    """Raise an error that names the first action that does not belong to `space`."""
    if isinstance(space, Discrete) != (actions.dtype == np.int64):
        raise LobsDICEError(
            f"actions are {'integers' if actions.dtype == np.int64 else 'floats'}, "
            f"but their space is {space}"
        )
    if isinstance(space, Box) and actions.shape[1] != space.size:
        raise LobsDICEError(f"actions have {actions.shape[1]} columns, their bounds {space.size}")
    for start, chunk in _chunks(actions):
        if isinstance(space, Box):
            extremes = np.stack(column_range(chunk))
            if not np.isfinite(extremes).all():
                check_finite("actions", actions)
            if not space.outside(extremes).size:
                continue
        if (rows := space.outside(chunk)).size:
            raise LobsDICEError(
                f"actions row {start + rows[0]} is {chunk[rows[0]].tolist()}, outside {space}"
            )


def _numeric(key: str, values: ArrayLike, dtype, *, ndim: int = 1) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise LobsDICEError(f"{key} is ragged: its rows differ in length") from error
    if array.dtype.kind not in "biuf":
        raise LobsDICEError(f"{key} must be numbers, not {array.dtype}")
    if array.ndim != ndim:
        raise LobsDICEError(f"{key} has shape {array.shape}, expected {ndim} dimension(s)")
    if dtype in (np.int64, np.bool_) and array.dtype.kind == "f":
        check_finite(key, array[:, None])
        if (array != np.round(array)).any():
            raise LobsDICEError(f"{key} must be whole numbers")
    with np.errstate(over="ignore"):  # an overflow to infinity is reported with its row
        return np.ascontiguousarray(array, dtype=dtype)


def _chunks(rows: np.ndarray, size: int = CHUNK) -> Iterable[tuple[int, np.ndarray]]:
    return ((i, rows[i : i + size]) for i in range(0, len(rows), size))


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """starts[0], …, starts[0]+sizes[0]-1, starts[1], …"""
    return np.repeat(starts - _offsets(sizes), sizes) + np.arange(sizes.sum())


def _together(arrays: list) -> np.ndarray | None:
    return None if any(a is None for a in arrays) else np.concatenate(arrays)


def _relabel(part: Episodes, names: tuple[str, ...]) -> np.ndarray:
    return np.array([names.index(n) for n in part.source_names], np.int64)[part.source]
