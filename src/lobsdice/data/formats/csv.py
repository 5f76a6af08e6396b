"""CSV files: tables as text, which may be compressed."""

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from csv import reader as csv_lines
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.data.foreign import check_claim, reason
from lobsdice.data.formats.cells import EMPTY, NOT_UTF8, find_text, is_truth, refuse_words
from lobsdice.data.formats.columns import Layout
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.parts import table_parts
from lobsdice.data.formats.table import from_table, to_table
from lobsdice.errors import LobsDICEError

#: The most bytes of a line, and of what is parsed at a time.
BLOCK = 1 << 20

#: A header below a title is looked for in so many lines.
HIGH = 20

#: The signs between columns that are found without an option.
SEPARATORS = (b",", b";", b"\t")

#: The first bytes of compressed files, and the ends of their names.
CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIXES = {".gz": "gzip", ".zst": "zstd"}

#: The first line of files for Excel, which states the separator.
STATED = re.compile(rb"(?:\xef\xbb\xbf)?sep=(.)\r?\n", re.IGNORECASE)

#: A row in a message.
ROW = re.compile(r"\brow (\d+)")

TOO_LONG = "a line has more than a million characters; perhaps a quotation mark is never closed"
HASH = "; if lines that begin with '#' are comments, set `comment` to '#'"
GUESSED = "commas were read as decimal points; if they are not, state `decimal`"


def read(path: Path, options: ReadOptions) -> tuple[Episodes, list[str]]:
    """The episodes in a table with a header, and warnings; row 0 is the row below the header."""
    with _explained(path):
        text = Text.open(path, options)
        try:
            layout = text.layout(options)
            episodes, notices = from_table(_load(text, layout, options), layout, options)
        except LobsDICEError as error:
            raise type(error)(_with_lines(str(error), text, path)) from error
    notices = [_with_lines(notice, text, path) for notice in notices]
    return episodes, [*notices, *([GUESSED] if text.guessed else [])]


def parts(path: Path, options: ReadOptions) -> Iterator[tuple[Episodes, list[str]]]:
    """Yield the episodes in a table in parts, and warnings about each."""
    with _explained(path):
        text = Text.open(path, options)
        layout = text.layout(options)
        with text.batches(_csv_types(layout, options), layout.names) as reader:
            yield from table_parts(iter(reader), layout, options)


@dataclass(frozen=True)
class Text:
    """The contents of a file and the signs in it."""

    source: Path | pa.Buffer
    """The file itself, or its text if it was compressed or had comments."""
    separator: str
    decimal: str
    guessed: bool
    """True if the sign before decimals was guessed, and is not the usual one."""
    header: bool
    comment: str | None
    codec: str | None
    start: bytes
    """The first lines."""

    @classmethod
    def open(cls, path: Path, options: ReadOptions) -> "Text":
        """The text of a file; signs that no option gives are found in its first lines."""
        codec = _codec(path)
        source, start, stated = _contents(path, codec, options.comment)
        first, *others = start.removeprefix(b"\xef\xbb\xbf").splitlines() or [b""]
        separator = (options.separator is None and stated) or _separator(path, first, options)
        rows = others if options.header else [first, *others]
        guessed = options.decimal is None and _decimal_commas(rows, separator)
        decimal = options.decimal or ("," if guessed else ".")
        return cls(
            source, separator, decimal, guessed, options.header, options.comment, codec, start
        )

    def layout(self, options: ReadOptions) -> Layout:
        """The columns of each part of an episode."""
        try:
            return Layout.find(self.names, options)
        except (LobsDICEError, pa.ArrowInvalid) as error:
            if self.start.lstrip().startswith(b"#"):
                raise LobsDICEError(f"{reason(error)}{HASH}") from error
            if line := _header_below(self.start):
                raise LobsDICEError(
                    f"line {line} looks like the header, and line 1 does not; remove the lines "
                    f"above the header ({reason(error)})"
                ) from error
            raise

    @property
    def parsing(self) -> csv.ParseOptions:
        return csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)

    @property
    def names(self) -> list[str]:
        """The names of the columns, without blanks around them."""
        how = csv.ReadOptions(block_size=BLOCK, autogenerate_column_names=not self.header)
        with csv.open_csv(self.stream(), parse_options=self.parsing, read_options=how) as reader:
            found = reader.schema.names
        return [n.strip() for n in found] if self.header else [str(i) for i in range(len(found))]

    def stream(self) -> Any:
        return self.source if isinstance(self.source, Path) else pa.BufferReader(self.source)

    def table(self, types: dict[str, pa.DataType], columns: list[str]) -> pa.Table:
        """Some columns of the table, in these types."""
        return csv.read_csv(self.stream(), **self._how(types, columns))

    def batches(self, types: dict[str, pa.DataType], columns: list[str]) -> Any:
        """A reader of some columns, block by block."""
        return csv.open_csv(self.stream(), **self._how(types, columns))

    def _how(self, types: dict[str, pa.DataType], columns: list[str]) -> dict[str, Any]:
        names = {"column_names": self.names, "skip_rows": int(self.header)}
        how = csv.ReadOptions(block_size=BLOCK, **names)
        convert = csv.ConvertOptions(
            column_types=types,
            include_columns=columns,
            null_values=[*EMPTY, " "],
            decimal_point=self.decimal,
        )
        return {"parse_options": self.parsing, "convert_options": convert, "read_options": how}


def _load(text: Text, layout: Layout, options: ReadOptions) -> pa.Table:
    try:
        return text.table(_csv_types(layout, options), layout.names)
    except pa.ArrowInvalid as error:
        types = _csv_types(layout, options)
        numbers = [name for name, kind in types.items() if kind == pa.float32()]
        cells = text.table(dict.fromkeys(numbers, pa.string()), layout.names)
        refuse_words(cells, [name for name in layout.actions if name in numbers])
        find_text(cells, numbers, text.decimal)
        if truths := [name for name in numbers if is_truth(cells[name])]:
            return text.table(types | dict.fromkeys(truths, pa.string()), layout.names)
        raise error


def _codec(path: Path) -> str | None:
    """The compression of a file, if it has one."""
    with path.open("rb") as file:
        start = file.read(8)
    return next((codec for magic, codec in CODECS.items() if start.startswith(magic)), None)


def _contents(
    path: Path, codec: str | None, comment: str | None
) -> tuple[Path | pa.Buffer, bytes, str]:
    """The file or its text, its first lines, and the separator if the very first line states it.

    The text is uncompressed, without comments and without that line.
    """
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise LobsDICEError(NOT_UTF8)
    if codec is None and comment is None and not STATED.match(start):
        return path, start, ""
    text = path.read_bytes() if codec is None else _unpacked(path, codec)
    if comment is not None:
        sign, lines = comment.encode(), text.splitlines(keepends=True)
        text = b"".join(line for line in lines if not line.lstrip().startswith(sign))
    stated = STATED.match(text)
    text = text[stated.end() :] if stated else text
    return pa.py_buffer(text), text[: 1 << 16], stated[1].decode("latin-1") if stated else ""


def _unpacked(path: Path, codec: str) -> bytes:
    size, parts = path.stat().st_size, []
    with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, codec) as stream:
        while part := stream.read(BLOCK):
            parts.append(part)
            check_claim("the text", BLOCK * len(parts), size, spare=BLOCK)
    text = b"".join(parts)
    if text.startswith((b"PK", b"\x89HDF", b"PAR1")):
        raise LobsDICEError("only CSV files are read while they are compressed; unpack it")
    return text


def _separator(path: Path, first: bytes, options: ReadOptions) -> str:
    """The sign between columns: that of the options, else that of the name or the first line."""
    if options.separator is not None:
        return "\t" if options.separator == "tab" else options.separator
    if ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        return "\t"
    line = re.sub(rb'"[^"]*"', b"", first)
    commas, semicolons, tabs = (line.count(sign) for sign in SEPARATORS)
    if semicolons and (semicolons > commas or not options.header):
        return ";"
    return "\t" if tabs and not commas else ","


def _header_below(start: bytes) -> int:
    """The number of the line that is probably the header, if lines stand above it, or 0.

    It has more columns than the first line, and the next line has as many. With another separator
    the first line may have as many, too: then the commas below it are those of decimals.
    """
    lines = start.splitlines()[:HIGH] or [b""]
    first, *others = ([line.count(sign) for sign in SEPARATORS] for line in lines)
    for number, (here, below) in enumerate(pairwise(others), start=2):
        alike = any(a == b > 0 for a, b in zip(first, here, strict=True))
        counts = zip(first, here, below, strict=True)
        if not alike and any(b == c > max(1, a) for a, b, c in counts):
            return number
    return 0


def _decimal_commas(rows: list[bytes], separator: str) -> bool:
    """True if cells in the first rows are numbers with commas, and none has a point."""
    if separator == ",":
        return False
    cells = [cell.strip() for row in rows[:50] for cell in row.split(separator.encode())]
    commas = any(re.fullmatch(rb"[-+]?\d*,\d+(?:[eE][-+]?\d+)?", cell) for cell in cells)
    return commas and not any(re.fullmatch(rb"[-+]?\d*\.\d+", cell) for cell in cells)


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
        if "conversion error" in str(error):
            raise LobsDICEError(
                f"a cell is not a number ({reason(error)}); `decimal` states the sign before "
                "decimals"
            ) from error
        cut = any(words in str(error) for words in ("straddl", "cannot infer number of columns"))
        if cut and path.stat().st_size > BLOCK:
            raise LobsDICEError(TOO_LONG) from error
        raise


def _with_lines(message: str, text: Text, path: Path) -> str:
    """A message in which each row is followed by its line: `row 3 (line 5)`."""
    rows = [int(found) for found in ROW.findall(message)]
    if not rows:
        return message
    lines = _lines(path, text, max(rows))

    def with_line(found: re.Match[str]) -> str:
        row = int(found[1])  # in the words of a cell it may lie far beyond the file
        return f"{found[0]} (line {lines[row] if row < len(lines) else 'unknown'})"

    return ROW.sub(with_line, message)


def _lines(path: Path, text: Text, last: int) -> list[int]:
    """The line of the file that each row begins in, from 1, up to row `last`."""
    file = io.BytesIO(_unpacked(path, text.codec)) if text.codec else path.open("rb")
    with io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="") as lines:
        found, before = [], 0
        reader = csv_lines(lines, delimiter=text.separator)
        for cells in reader:
            comment = text.comment and cells and cells[0].lstrip().startswith(text.comment)
            stated = not found and cells and cells[0].lower() == "sep="
            if cells and not comment and not stated:  # Arrow leaves empty lines out, too
                found.append(before + 1)
            before = reader.line_num
            if len(found) > last + 1:
                break
    return found[text.header :]


def write(path: Path, episodes: Episodes) -> None:
    """Write episodes as a table."""
    codec = SUFFIXES.get(path.suffix.lower())
    tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes]
    how = csv.WriteOptions(delimiter="\t" if tabs else ",")
    with atomic(path) as temporary, pa.OSFile(str(temporary), "wb") as file:
        if codec is None:
            return csv.write_csv(to_table(episodes), file, how)
        with pa.CompressedOutputStream(file, codec) as stream:
            csv.write_csv(to_table(episodes), stream, how)


def _csv_types(layout: Layout, options: ReadOptions) -> dict[str, pa.DataType]:
    types = dict.fromkeys(layout.observations, pa.float32())
    if layout.reward is not None:
        types[layout.reward] = pa.float32()
    texts = [name for name in layout.space if name.startswith("action_names")]
    types |= dict.fromkeys([*texts, *filter(None, [layout.source])], pa.string())
    if _continuous(layout, options):
        types |= dict.fromkeys(layout.actions, pa.float32())
    return types


def _continuous(layout: Layout, options: ReadOptions) -> bool:
    """True if actions are real numbers. In text, the integer 1 and the real number 1 look alike."""
    if options.action_kind != "auto":
        return options.action_kind == "continuous"
    bounded = any(name.startswith("action_low") for name in layout.space)
    return bounded or bool(options.action_low) or len(layout.actions) > 1
