"""Parquet files: tables with typed columns."""

from collections.abc import Sequence
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
from lobsdice.data.formats.table import from_table, to_table

#: The least bytes of a number in memory.
BYTES = 4


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a table, and warnings; a column of lists counts as several columns."""
    layout = Layout.find(parquet.read_schema(path).names, options)
    return from_table(read_columns(path, layout.names), layout, options)


def read_columns(path: Path, names: Sequence[str]) -> pa.Table:
    """Columns of a table; an error if they are damaged, or claim more than the file can hold."""
    size = path.stat().st_size
    types = parquet.read_schema(path)
    # A text that is stored once, for all its rows, stays so until its size is known.
    texts = [name for name in names if _is_text(types.field(name).type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        found = file.metadata
        parts = (found.row_group(i) for i in range(found.num_row_groups))
        check_claim("the table", found.num_rows * len(names) * BYTES, size)
        check_claim("the table", sum(part.total_byte_size for part in parts), size)
        table = file.read(columns=list(names))
    table.validate(full=True)  # arrays of a damaged file can crash their reader
    for name in names:
        check_claim(f"column '{name}'", _bytes_of_texts(table[name]), size)
    return table


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
