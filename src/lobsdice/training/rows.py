"""Rows of metrics, read from CSV files."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from lobsdice.errors import LobsDICEError
from lobsdice.training.loggers import Row

#: The cells of a line of a CSV file that are not empty, as text.
Line = dict[str, str]


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file with a column `step`, without empty cells; no rows if no file."""
    return rows_of(path, read_lines(path), names=("step",)) if path.exists() else []


def read_lines(path: Path) -> list[Line]:
    """The lines of a CSV file, without empty cells."""
    try:
        return parse_lines(path, path.read_bytes())
    except OSError as error:
        raise LobsDICEError(f"cannot read {path}: {error.strerror or error}") from error


def parse_lines(path: Path, contents: bytes) -> list[Line]:
    """The lines of the contents of a CSV file; `path` is for errors."""
    try:
        text = contents.decode()
        if "\0" in text:
            raise ValueError("it has NUL characters")
        lines = list(csv.DictReader(io.StringIO(text, newline="")))
    except (csv.Error, ValueError) as error:
        raise LobsDICEError(f"{path} is damaged: {error}") from error
    # csv uses None as the key of surplus cells, and as the value of missing ones.
    if any(None in (*line, *line.values()) for line in lines):
        raise LobsDICEError(f"{path} is damaged: some rows are longer or shorter than its header")
    return [{k: v for k, v in line.items() if v != ""} for line in lines]


def rows_of(path: Path, lines: Sequence[Line], *, names: Sequence[str]) -> list[Row]:
    """The rows of lines, each with a natural number in the columns `names`."""
    rows: list[Row] = [{k: _number(v) for k, v in line.items()} for line in lines]
    for name in names:
        if not all(isinstance(row.get(name), int) and row[name] >= 0 for row in rows):
            raise LobsDICEError(f"{path} is damaged: some rows have no {name}")
    return rows


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
