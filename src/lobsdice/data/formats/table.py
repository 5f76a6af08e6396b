"""Episodes from tables with one row a state, and such tables from episodes.

The rows of an episode are its T+1 states in order. The action and the reward of a row belong to the
step from its state to the next one, so that they are empty in an episode's last row.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64

from lobsdice.data.episodes import NUMBERS, Episodes
from lobsdice.data.formats.actions import prepare_actions
from lobsdice.data.formats.cells import (
    check_columns,
    codes,
    decoded,
    holds_times,
    is_blank,
    matrix,
    names_of,
    numbers,
    places,
    refuse_words,
    seconds,
    texts,
)
from lobsdice.data.formats.columns import ONE, Layout, numbered
from lobsdice.data.formats.gaps import Gaps, elapsed
from lobsdice.data.formats.marks import successes, terminations, words_held
from lobsdice.data.formats.metadata import flags_of, space_entries, space_of, success_of
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.twice import find_twice, sentence
from lobsdice.data.spaces import ActionSpace
from lobsdice.errors import LobsDICEError, plural

#: What to do with marks of ends that are other numbers, and with those before an end.
CODES = (
    "cells hold 0, or 1 in the last two rows of an episode; if they are codes, name those that "
    "mark an end as `terminated_values`"
)
AFTER = (
    "a mark of an end stands in the last two rows of an episode; cut the rows after it, or if they "
    "are another recording of the same name, rename one or split them with `max_gap`"
)
#: Steps that go back once in an episode of so many rows are no shuffled rows.
LONG = 10


def to_table(episodes: Episodes) -> pa.Table:
    """The episodes as a table; columns of the action space are filled in the first row only."""
    rows = len(episodes.observations)
    final = np.zeros(rows, bool)
    final[episodes.ends] = True
    terminated = np.zeros(rows, bool)
    terminated[episodes.ends] = episodes.terminated
    episode = np.repeat(np.arange(len(episodes)), episodes.lengths + 1)
    names = episodes.episode_names
    columns: dict[str, Any] = {
        "episode": np.array(names)[episode] if len({*names}) == len(episodes) else episode,
        "step": np.arange(rows) - episodes.starts[episode],
        **{f"obs_{i}": column for i, column in enumerate(episodes.observations.T)},
        **{key: _padded(column, final) for key, column in _step_columns(episodes)},
        "terminated": terminated,
    }
    if (success := episodes.success) is not None:
        columns["success"] = pa.array(success[episode] == 1, mask=~final | (success[episode] < 0))
    for key, values in space_entries(episodes.action_space).items():
        names = [f"{key}_{i}" for i in range(values.size)] if values.ndim else [key]
        for name, value in zip(names, values.ravel(), strict=True):
            columns[name] = pa.array(np.full(rows, value), mask=np.arange(rows) > 0)
    if episodes.source is not None:
        columns["source"] = np.array(episodes.source_names)[episodes.source[episode]]
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def _step_columns(episodes: Episodes) -> Iterator[tuple[str, np.ndarray]]:
    actions = episodes.actions
    space = episodes.action_space
    if actions is not None and space is not None:
        if actions.ndim == 1:
            yield "action", np.array(space.names)[actions] if space.names else actions
        else:
            yield from ((f"action_{i}", column) for i, column in enumerate(actions.T))
    if episodes.rewards is not None:
        yield "reward", episodes.rewards


def _padded(column: np.ndarray, final: Bool[np.ndarray, " rows"]) -> pa.Array:
    """The column with one cell a row, empty in the final row of each episode."""
    cells = np.zeros(len(final), column.dtype)
    cells[~final] = column
    return pa.array(cells, mask=final)


def from_table(table: pa.Table, layout: Layout, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a table, and a sentence for each thing to warn of."""
    if layout.episode == ONE:
        table = table.append_column(ONE, pa.array(np.zeros(table.num_rows, np.int64)))
    table = decoded(table, layout.names)
    order = _Order.of(table, layout, options.max_gap)
    observations = matrix(table, layout.observations, may_be_empty=None)[0].astype(np.float32)
    observed = names_of(table, layout.observations)
    check_columns(observations, observed)
    notices = order.notices()
    actions, space, filled = None, None, np.zeros(table.num_rows, bool)
    if not is_blank(table, layout.actions):
        raw, empty = _raw_actions(table, layout, order)
        filled = order.last & ~empty & (not options.last_row_is_final)
        stored, names = _space(table, layout), names_of(table, layout.actions)
        actions, space, found = prepare_actions(order.covered(raw), stored, options, names)
        notices += found
    terminated, found = _terminated(table, layout, order, filled, options.terminated_values)
    success, more = _success(table, layout, order, options)
    episodes = Episodes.from_arrays(
        observations[order.states],
        lengths=order.lengths,
        terminated=terminated,
        actions=None if actions is None else actions[order.steps],
        rewards=_rewards(table, layout, order),
        action_space=space,
        observation_names=observed,
        success=success,
        unread=layout.unread,
        episode_names=order.names,
        **_labels(table, layout, order),
        checked=NUMBERS,
    )
    return episodes, [*notices, *found, *more, *words_held(table, layout, options)]


def _raw_actions(table: pa.Table, layout: Layout, order: "_Order"):
    """The actions as they are in the table, and the empty rows: numbers, or a column of names."""
    if len(layout.actions) == 1 and (found := texts(table, layout.actions[0], order.last)):
        return found
    refuse_words(table, layout.actions)
    return matrix(table, layout.actions, may_be_empty=order.last)


@dataclass(frozen=True)
class _Order:
    """The rows of the table that hold the states and the steps of each episode."""

    states: Int64[np.ndarray, " states"]
    """The rows in the order of episodes and of steps, without episodes of one row."""
    steps: Int64[np.ndarray, " steps"]
    """The same without the last row of each episode."""
    lengths: Int64[np.ndarray, " episodes"]
    last: Bool[np.ndarray, " rows"]
    """True for each row of the table that is the last of its episode, or repeats that row."""
    repeats: tuple[Int64[np.ndarray, " repeats"], Int64[np.ndarray, " repeats"]]
    """The rows that are left out because they repeat others, and these others."""
    names: tuple[str, ...]
    """The names of the episodes; empty if the file counts them from 0."""
    goes_on: Bool[np.ndarray, " episodes"]
    """True for each part of an episode that another part follows."""
    vanished: int
    """The number of episodes of one row, which have no transition."""
    scattered: int
    """The number of episodes whose rows are not consecutive, if no column orders them."""
    back: int
    """The number of long episodes in which the column that orders the rows goes back once."""
    gaps: str | None
    """A sentence about gaps in time, if there are any."""

    @classmethod
    def of(cls, table: pa.Table, layout: Layout, max_gap: float | None) -> "_Order":
        """The order of a table; episodes are in the order of their first rows."""
        if not table.num_rows:
            raise LobsDICEError("there are no episodes: the table has no rows")
        episode = codes(table, layout.episode)
        order, gaps, repeats, back = _sorted(table, layout, episode, max_gap)
        begins = np.diff(episode[order], prepend=-1) != 0
        if gaps and max_gap is not None:
            begins |= gaps.at
        starts = np.flatnonzero(begins)
        sizes = np.diff(starts, append=len(order))
        last = np.zeros(table.num_rows, bool)
        last[order[starts + sizes - 1]] = True
        last[repeats[0]] = last[repeats[1]]
        states = order[np.repeat(sizes > 1, sizes)]
        if not states.size:
            raise LobsDICEError("every episode has only one row, so that there is no transition")
        owner = episode[order[starts]]
        return cls(
            states,
            states[~last[states]],
            sizes[sizes > 1] - 1,
            last,
            repeats,
            names=_names(table[layout.episode].take(order[starts]).to_pylist(), sizes > 1),
            goes_on=np.append(owner[1:] == owner[:-1], False)[sizes > 1],
            vanished=int((sizes == 1).sum()),
            scattered=_scattered(episode) if layout.step is None else 0,
            back=back,
            gaps=gaps and _gap_sentence(table, layout, order, gaps, split=max_gap is not None),
        )

    def covered(self, values: np.ndarray) -> np.ndarray:
        """The values, with any valid one in each episode's last row, whose cell has no meaning."""
        covered = values.copy()
        covered[self.last] = values[self.steps[0]]
        return covered

    def notices(self) -> list[str]:
        found = [sentence(self.repeats[0].size)] if self.repeats[0].size else []
        if self.vanished:
            found.append(
                f"{plural(self.vanished, 'episode')} of one row dropped, because one state is not "
                "a transition"
            )
        if self.scattered:
            found.append(
                f"the rows of {plural(self.scattered, 'episode')} are not consecutive, and no "
                "`step_column` orders them; the order of the file was taken"
            )
        if self.back:
            found.append(
                f"`step_column` goes back once in {plural(self.back, 'episode')}, whose rows were "
                "sorted by it; if a clock was set back or a counter began anew, that order is wrong"
            )
        return [*found, *([self.gaps] if self.gaps else [])]


def _sorted(
    table: pa.Table, layout: Layout, episode: Int64[np.ndarray, " rows"], max_gap: float | None
) -> tuple[Int64[np.ndarray, " kept"], Gaps | None, tuple[np.ndarray, np.ndarray], int]:
    """The rows in the order of episodes and steps, the gaps between them, and those left out.

    The number is that of episodes in which the steps go back once.
    """
    none = np.zeros(0, np.int64)
    if layout.step is None:
        if max_gap is not None:
            raise LobsDICEError("`max_gap` needs a column of times; name it as `step_column`")
        return np.argsort(episode, kind="stable"), None, (none, none), 0
    steps = places(table, layout.step, episode)
    order = np.lexsort((steps, episode))
    repeats = find_twice(table, steps, episode, order, layout.step)
    order = order[~np.isin(order, repeats[0])]
    passed = elapsed(seconds(table, layout.step), order, episode)
    return order, Gaps.find(passed, max_gap), repeats, _back(steps, episode)


def _gap_sentence(
    table: pa.Table, layout: Layout, order: Int64[np.ndarray, " kept"], gaps: Gaps, *, split: bool
) -> str:
    row = int(order[gaps.longest])
    unit = " s" if layout.step and holds_times(table, layout.step) else ""
    return gaps.sentence(str(table[layout.episode][row]), row, unit=unit, split=split)


def _names(owners: list[Any], kept: Bool[np.ndarray, " parts"]) -> tuple[str, ...]:
    """The name of each part that is kept; the parts of an episode are counted from 1."""
    owners = [str(owner) for owner in owners]
    several = {name for name, count in Counter(owners).items() if count > 1}
    seen: Counter[str] = Counter()
    found = []
    for owner in owners:
        seen[owner] += 1
        found.append(f"{owner} part {seen[owner]}" if owner in several else owner)
    names = [name for name, keep in zip(found, kept, strict=True) if keep]
    return () if names == [str(i) for i in range(len(names))] else tuple(names)


def _back(steps: np.ndarray, episode: Int64[np.ndarray, " rows"]) -> int:
    """The number of long episodes in which the steps go back once; shuffled ones do so often."""
    rows = np.argsort(episode, kind="stable")
    owner = episode[rows]
    falls = (np.diff(steps[rows]) < 0) & (np.diff(owner) == 0)
    sizes = np.bincount(episode)
    once = np.bincount(owner[1:][falls], minlength=sizes.size) == 1
    return int((once & (sizes >= LONG)).sum())


def _scattered(episode: Int64[np.ndarray, " rows"]) -> int:
    begins = np.append(True, episode[1:] != episode[:-1])
    return int((np.bincount(episode[begins]) > 1).sum())


def _terminated(
    table: pa.Table, layout: Layout, order: _Order, filled: np.ndarray, words: Sequence[str]
):
    """True for each episode that terminated, and warnings; `filled`: last rows with an action."""
    ends = np.cumsum(order.lengths + 1) - 1
    final, before = order.states[ends], order.states[ends - 1]
    lost = filled[final] & ~order.goes_on  # before a gap, the next row shows no result either
    if layout.terminated is None:
        return np.zeros(len(ends), bool), _results_lost(int(lost.sum()), 0)
    values = terminations(table, layout.terminated, words, order.last)
    flags = values != 0
    allowed = order.last.copy()
    allowed[before] = True
    allowed[order.repeats[0]] = allowed[order.repeats[1]]
    if (bad := np.flatnonzero((flags & ~allowed) | ((values != 0) & (values != 1)))).size:
        code = not words and values[bad[0]] not in (0, 1)
        raise _misplaced(table, layout.terminated, int(bad[0]), CODES if code else AFTER)
    ignored = flags[final] & filled[final] & ~flags[before]
    notices = _results_lost(int(lost.sum()), int(ignored.sum()))
    return (flags[final] & ~filled[final]) | flags[before], notices


def _misplaced(table: pa.Table, name: str, row: int, hint: str) -> LobsDICEError:
    """The error for a cell that marks no end, or an end before the end of its episode."""
    cell = str(table[name][row])[:60]
    return LobsDICEError(f"column '{name}', row {row}: {cell} is not valid; {hint}")


def _results_lost(actions: int, terminations: int) -> list[str]:
    """A warning about actions in last rows, and about the terminations that they hide."""
    if not actions:
        return []
    sentence = (
        f"the last row of {plural(actions, 'episode')} holds an action whose result is not in the "
        "file; the action was ignored"
    )
    if terminations:
        sentence += (
            f", and {plural(terminations, 'mark')} of termination in such rows, too; add a row "
            "with the final state, or set `last_row_is_final` if the last row is the final state"
        )
    return [sentence]


def _success(table: pa.Table, layout: Layout, order: _Order, options: ReadOptions):
    """The success of each episode, and a warning if a column that no option names is not valid."""
    if layout.success is None:
        return None, []
    name = layout.success
    try:
        flags = flags_of(f"column '{name}'", successes(table, name, options.success_values))
        found = success_of(name, flags[order.states], order.lengths + 1)
        return np.where(order.goes_on, -1, found), []  # nothing is known of the part before a gap
    except LobsDICEError as error:
        if options.success_column is not None:
            raise
        return None, [f"whether episodes succeeded was not read: {error}"]


def _rewards(table: pa.Table, layout: Layout, order: _Order) -> np.ndarray | None:
    if layout.reward is None or is_blank(table, (layout.reward,)):
        return None
    rewards = order.covered(numbers(table, layout.reward, may_be_empty=order.last))
    with np.errstate(over="ignore"):
        rewards = rewards.astype(np.float32)
    check_columns(rewards[:, None], (layout.reward,))
    return rewards[order.steps]


def _labels(table: pa.Table, layout: Layout, order: _Order) -> dict[str, Any]:
    if layout.source is None:
        return {}
    starts = order.states[np.cumsum(order.lengths + 1) - order.lengths - 1]
    names = [str(name) for name in table[layout.source].take(starts).to_pylist()]
    places = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return {"source": [places[name] for name in names], "source_names": list(places)}


def _space(table: pa.Table, layout: Layout) -> ActionSpace | None:
    entries: dict[str, list] = {}
    for name in numbered(layout.space):
        key = name if name == "action_count" else name.rsplit("_", 1)[0]
        cells = table[name].drop_null()
        if not len(cells):
            raise LobsDICEError(f"column '{name}' is empty")
        entries.setdefault(key, []).append(cells[0].as_py())
    return space_of({key: np.array(values) for key, values in entries.items()})
