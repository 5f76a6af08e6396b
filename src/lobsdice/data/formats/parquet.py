"""Parquet files: tables with typed columns."""

from pathlib import Path

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
    with parquet.ParquetFile(path) as file:
        layout = Layout.find(file.schema_arrow.names, options)
        _check_claims(path, file, len(layout.names))
        table = file.read(columns=layout.names)
    table.validate(full=True)  # arrays of a damaged file can crash their reader
    return from_table(table, layout, options)


def check_parquet(path: Path) -> None:
    """Raise an error if a table claims more than its file can hold, or is damaged."""
    with parquet.ParquetFile(path) as file:
        _check_claims(path, file, len(file.schema_arrow.names))
        file.read().validate(full=True)


def _check_claims(path: Path, file: parquet.ParquetFile, columns: int) -> None:
    """Raise an error if the rows, or the bytes of a part of them, are more than the file holds."""
    size = path.stat().st_size
    parts = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    check_claim("the table", file.metadata.num_rows * columns * BYTES, size)
    check_claim("the table", sum(part.total_byte_size for part in parts), size)


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes as a table."""
    with atomic(path) as temporary:
        parquet.write_table(to_table(episodes), temporary)
