"""CSV files: tables as text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.formats.cells import EMPTY, find_text
from lobsdice.data.formats.columns import Layout
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.table import from_table, to_table
from lobsdice.errors import LobsDICEError

#: The most bytes of a line, and of what is parsed at a time.
BLOCK = 1 << 20
BLOCKS = csv.ReadOptions(block_size=BLOCK)

NOT_UTF8 = "it is not text in UTF-8; save it with that encoding"
TOO_LONG = "a line has more than a million characters; perhaps a quotation mark is never closed"


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a table with a header, and warnings; row 0 is the row below the header."""
    _refuse_semicolons(path)
    with _explained(path):
        return _read(path, options)


def _read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    parsing = csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True)
    with csv.open_csv(path, parse_options=parsing, read_options=BLOCKS) as reader:
        layout = Layout.find(reader.schema.names, options)

    def load(types: dict[str, pa.DataType]) -> pa.Table:
        convert = csv.ConvertOptions(
            column_types=types, include_columns=layout.names, null_values=EMPTY
        )
        return csv.read_csv(
            path, parse_options=parsing, convert_options=convert, read_options=BLOCKS
        )

    try:
        table = load(_csv_types(layout, options))
    except pa.ArrowInvalid as error:
        numbers = [*layout.observations, *layout.actions, *filter(None, [layout.reward])]
        find_text(load(dict.fromkeys(numbers, pa.binary())), numbers)
        raise error
    return from_table(table, layout, options)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the parser's words for what is common into sentences."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise LobsDICEError(NOT_UTF8) from error
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise LobsDICEError(NOT_UTF8) from error
        cut = any(words in str(error) for words in ("straddl", "cannot infer number of columns"))
        if cut and path.stat().st_size > BLOCK:
            raise LobsDICEError(TOO_LONG) from error
        raise


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes as a table."""
    with atomic(path) as temporary:
        how = csv.WriteOptions(delimiter=_delimiter(path))
        csv.write_csv(to_table(episodes), temporary, how)


def _refuse_semicolons(path: Path) -> None:
    """Raise an error if semicolons separate the columns, as in countries with decimal commas."""
    with path.open("rb") as file:
        header = file.readline(1 << 16)
    if b";" in header and _delimiter(path).encode() not in header:
        raise LobsDICEError(
            "semicolons separate its columns; save it with commas between columns and points in "
            "numbers"
        )


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _csv_types(layout: Layout, options: ReadOptions) -> dict[str, pa.DataType]:
    types = dict.fromkeys(layout.observations, pa.float32())
    if layout.reward is not None:
        types[layout.reward] = pa.float32()
    if layout.source is not None:
        types[layout.source] = pa.string()
    if _continuous(layout, options):
        types |= dict.fromkeys(layout.actions, pa.float32())
    return types


def _continuous(layout: Layout, options: ReadOptions) -> bool:
    """True if actions are real numbers. In text, the integer 1 and the real number 1 look alike."""
    if options.action_kind != "auto":
        return options.action_kind == "continuous"
    bounded = any(name.startswith("action_low") for name in layout.space)
    return bounded or bool(options.action_low) or len(layout.actions) > 1
