"""Parquet files: tables with typed columns."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.foreign import check_claim
from lobsdice.data.formats.columns import Layout
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.parts import table_parts
from lobsdice.data.formats.table import from_table, to_table

#: Rows that are read at a time.
BATCH = 1 << 16

#: The least bytes of a number in memory.
BYTES = 4


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a table, and warnings; a column of lists counts as several columns."""
    layout = Layout.find(parquet.read_schema(path).names, options)
    return from_table(read_columns(path, layout.names), layout, options)


def parts(path: Path, options: ReadOptions) -> Iterator[tuple[Episodes, list[str]]]:
    """Yield the episodes in a table in parts, and warnings about each."""
    layout = Layout.find(parquet.read_schema(path).names, options)
    with parquet.ParquetFile(path) as file:
        batches = file.iter_batches(batch_size=BATCH, columns=layout.names)
        yield from table_parts(batches, layout, options)


def read_columns(path: Path, names: Sequence[str]) -> pa.Table:
    """Columns of a table; an error if they are damaged, or claim more than the file can hold."""
    size = path.stat().st_size
    types = parquet.read_schema(path)
    # A text that is stored once, for all its rows, stays so until its size is known.
    texts = [name for name in names if _is_text(types.field(name).type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        check_claim("the table", _claimed(file, types, names), size)
        table = file.read(columns=list(names))
    table.validate(full=True)  # arrays of a damaged file can crash their reader
    for name in names:
        check_claim(f"column '{name}'", _bytes_of_texts(table[name]), size)
    return table


def _claimed(file: parquet.ParquetFile, types: pa.Schema, names: Sequence[str]) -> int:
    """The bytes that some columns need in memory at least, with all numbers of their lists."""
    found = file.metadata
    lists = [name for name in names if pa.types.is_nested(types.field(name).type)]
    values = found.num_rows * (len(names) - len(lists))
    if lists:
        values += _values(file, set(lists))
    stored = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
    return max(BYTES * values, stored)


def _values(file: parquet.ParquetFile, lists: set[str]) -> int:
    """The numbers in columns of lists."""
    found = file.metadata
    file.scan_contents(sorted(lists))  # an error here would abort the process below
    # The path of a list's numbers begins with the name of its column and a point.
    paths = [found.schema.column(i).path for i in range(found.num_columns)]
    points = [[m.start() for m in re.finditer(r"\.", path)] for path in paths]
    leaves = [i for i, path in enumerate(paths) if lists & {path[:j] for j in points[i]}]
    groups = range(found.num_row_groups)
    return sum(found.row_group(i).column(j).num_values for i in groups for j in leaves)


def _is_text(kind: pa.DataType) -> bool:
    return any(
        check(kind) for check in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string)
    )


def _bytes_of_texts(column: Any) -> int:
    """The bytes of a column of texts, if every cell held its longest text; else 0."""
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return 0
    lengths: list[Any] = [pc.max(pc.binary_length(part.dictionary)) for part in column.chunks]  # pyright: ignore[reportAttributeAccessIssue]
    return len(column) * max((length.as_py() or 0 for length in lengths), default=0)


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes as a table."""
    with atomic(path) as temporary:
        parquet.write_table(to_table(episodes), temporary)
