"""Columns that mark how episodes end: numbers and truth values, or words such as `DONE`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from lobsdice.data.formats.cells import EMPTY, is_text, matrix, numbers, whole_column
from lobsdice.data.formats.columns import Layout, listed
from lobsdice.data.formats.options import ReadOptions
from lobsdice.data.formats.words import Words
from lobsdice.errors import LobsDICEError


def terminations(
    table: pa.Table, name: str, words: Sequence[str], may_be_empty: Bool[np.ndarray, " rows"]
) -> np.ndarray:
    """1 in each row that marks an end, 0 in the others; `words` are the marks, if there are any."""
    if words:
        return said(table, name, words).astype(np.int64)
    _refuse_words(table, name, "terminated_values")
    return numbers(table, name, may_be_empty)


def successes(table: pa.Table, name: str, words: Sequence[str]) -> np.ndarray:
    """The cells of a column of success, one a row; NaN or -1 if they are empty.

    `words` mean success, if there are any; all others mean failure.
    """
    if words:
        cells = _texts(table, name)
        empty = np.isin(cells, [word for word in EMPTY if word not in words])
        return np.where(empty, -1, np.isin(cells, list(words)))[:, None]
    _refuse_words(table, name, "success_values")
    values, empty = matrix(table, (name,), may_be_empty=np.ones(table.num_rows, bool))
    return np.where(empty[:, None], -1, values)


def said(table: pa.Table, name: str, words: Sequence[str]) -> Bool[np.ndarray, " rows"]:
    """True for each row whose cell is one of the words."""
    return np.isin(_texts(table, name), list(words))


def words_held(table: pa.Table, layout: Layout, options: ReadOptions) -> list[Words]:
    """The words in the columns of marks whose words the options name."""
    named = (
        (layout.terminated, options.terminated_values),
        (layout.success, options.success_values),
    )
    return [
        Words.of(name, words, _held(whole_column(table, name)))
        for name, words in named
        if name is not None and words
    ]


def _held(column: Any) -> list[str]:
    cells = dict.fromkeys(_text(cell) for cell in column.unique().to_pylist())
    return [cell for cell in cells if cell]


def _texts(table: pa.Table, name: str) -> np.ndarray:
    """The cells of a column as texts, which are empty where the cells are."""
    return np.array([_text(cell) for cell in whole_column(table, name).to_pylist()])


def _refuse_words(table: pa.Table, name: str, option: str) -> None:
    column = whole_column(table, name)
    if not is_text(column):
        return
    words = list(dict.fromkeys(_text(cell) for cell in column.to_pylist() if cell is not None))
    if any(word.lower() not in ("", "true", "false") for word in words):
        raise LobsDICEError(
            f"column '{name}' holds words: {listed([repr(word) for word in words])}; name those "
            f"that count with `{option}`"
        )


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:g}" if isinstance(cell, float) else str(cell).strip()
