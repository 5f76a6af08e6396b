"""Files read in parts, each of some whole episodes, so that a file may be larger than memory.

The rows of an episode must lie together in a table. Flat transitions are cut at the flags that mark
the ends of episodes.
"""

from collections.abc import Iterator
from dataclasses import replace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats.arrays import Arrays
from lobsdice.data.formats.columns import ONE, Layout
from lobsdice.data.formats.flat import Flat, flags, read_flat
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.table import from_table
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import LobsDICEError

#: Rows of a part, about.
ROWS = 1 << 18

Part = tuple[Episodes, list[str]]


def table_parts(
    batches: Iterator[pa.RecordBatch], layout: Layout, options: ReadOptions
) -> Iterator[Part]:
    """Yield the episodes of a table that comes in batches of rows, and warnings about each part."""
    seen, row = set(), 0
    for table in _whole_episodes(batches, layout.episode):
        again = seen.intersection(names := _episodes(table, layout.episode))
        if again:
            raise LobsDICEError(
                f"the rows of episode {min(map(str, again))} do not lie together; sort the file by "
                f"'{layout.episode}', or convert it without parts"
            )
        seen.update(names)
        try:
            part = from_table(table, layout, options)
        except LobsDICEError as error:
            raise type(error)(f"counting from row {row}: {error}") from error
        yield part
        row += table.num_rows
        # The first row of a file may state the space of all actions.
        layout, options = replace(layout, space=()), _stating(options, part[0])


def flat_parts(stored: Arrays, metadata: Arrays, options: ReadOptions) -> Iterator[Part]:
    """Yield the episodes of flat transitions, and warnings about each part."""
    flat = Flat.find(stored)
    ends = flags(flat, "terminals")
    if "timeouts" in flat.columns:
        ends |= flags(flat, "timeouts")
    ends[-1] = True
    last = np.flatnonzero(ends)
    cuts = np.unique(np.searchsorted(last, [*range(ROWS, flat.rows, ROWS), flat.rows - 1])) + 1
    first = 0
    for stop in cuts.tolist():
        rows = slice(int(last[first - 1]) + 1 if first else 0, int(last[stop - 1]) + 1)
        places = (flat.rows, rows, len(last), slice(first, stop))
        yield read_flat(_cut(stored, *places), _cut(metadata, *places), options)
        first = stop


def _cut(
    arrays: Arrays, rows: int, some_rows: slice, episodes: int, some_episodes: slice
) -> Arrays[np.ndarray]:
    """The arrays, of which those with an entry for each row or each episode are cut."""

    def load(name: str) -> np.ndarray:
        whole: h5py.Dataset | np.ndarray = arrays[name]
        size = whole.shape[0] if whole.shape else None
        which = some_rows if size == rows else some_episodes if size == episodes else ()
        return np.asarray(whole[which])

    return Arrays(arrays.names, load)


def _whole_episodes(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.Table]:
    """Yield tables of whole episodes: the last one of a batch waits for the next batch."""
    kept: list[pa.Table] = []
    for batch in batches:
        table = pa.concat_tables([*kept, pa.Table.from_batches([batch])])
        kept = [table]
        if table.num_rows < ROWS or name == ONE:
            continue
        column = table[name]
        other = np.flatnonzero(pc.not_equal(column, column[-1]).to_numpy(zero_copy_only=False))  # pyright: ignore[reportAttributeAccessIssue]
        if other.size:
            stop = int(other[-1]) + 1
            yield table.slice(0, stop)
            kept = [table.slice(stop)]
    yield from kept


def _episodes(table: pa.Table, name: str) -> set:
    return set() if name == ONE else set(table[name].unique().to_pylist())


def _stating(options: ReadOptions, part: Episodes) -> ReadOptions:
    """The options that state the action space of a part, if its file does."""
    space = part.action_space
    if space is None or space.assumed or options.action_space(1) is not None:
        return options
    if isinstance(space, Box):
        return replace(options, action_low=space.low, action_high=space.high)
    if isinstance(space, Discrete) and not space.names:
        return replace(options, action_count=space.n)
    return options
