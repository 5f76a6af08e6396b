"""Parquet files: tables with typed columns."""

from pathlib import Path

from pyarrow import parquet

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.formats.columns import Layout
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.table import from_table, to_table


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a table, and warnings; a column of lists counts as several columns."""
    with parquet.ParquetFile(path) as file:
        layout = Layout.find(file.schema_arrow.names, options)
        table = file.read(columns=layout.names)
    table.validate(full=True)  # arrays of a damaged file can crash their reader
    return from_table(table, layout, options)


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes as a table."""
    with atomic(path) as temporary:
        parquet.write_table(to_table(episodes), temporary)
