"""The cells of a table as arrays of numbers; errors name the column and the row."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float32, Int64

from lobsdice.data.checks import check_finite
from lobsdice.data.formats.times import is_clock, nanoseconds, refuse_midnight
from lobsdice.errors import LobsDICEError, plural

#: Parts of a second in Arrow's units of time.
SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

#: The texts that count as an empty cell of a CSV file.
EMPTY = ["", "NA", "N/A", "null", "NULL", "None"]

#: What is wrong with texts in another encoding, and what to do.
NOT_UTF8 = "it is not text in UTF-8; save it with that encoding"

#: Truth values as texts.
TRUTH = {"true": 1.0, "false": 0.0}


def matrix(
    table: pa.Table, names: Sequence[str], may_be_empty: np.ndarray | None
) -> tuple[np.ndarray, Bool[np.ndarray, " rows"]]:
    """The columns side by side, and the empty rows; only those of `may_be_empty` may be empty."""
    parts, empty = [], np.ones(table.num_rows, bool)
    for name in names:
        values, missing = _cells(table, name)
        wrong = missing if may_be_empty is None else missing & ~may_be_empty
        if (bad := np.flatnonzero(wrong)).size:
            raise _empty(name, bad, final=may_be_empty is not None)
        parts.append(values)
        empty &= missing | np.isnan(values).any(axis=1)
    whole = all(part.dtype.kind in "biu" for part in parts)
    kind = np.int64 if whole else np.result_type(*parts)
    return np.concatenate(parts, axis=1, dtype=kind, casting="unsafe"), empty


def texts(
    table: pa.Table, name: str, may_be_empty: np.ndarray
) -> tuple[np.ndarray, Bool[np.ndarray, " rows"]] | None:
    """A column of texts and its empty rows; None if it holds numbers or something else.

    Numbers among texts are an error, because one of the two is a slip.
    """
    column = whole_column(table, name)
    if not is_text(column):
        return None
    cells = column.to_pylist()
    if any(cell is not None and _is_number(cell) for cell in cells):
        find_text({name: column}, [name])
    missing = np.array([cell is None or cell.strip() in EMPTY for cell in cells])
    if (bad := np.flatnonzero(missing & ~may_be_empty)).size:
        raise _empty(name, bad, final=True)
    return np.array([cell or "" for cell in cells]), missing


def _empty(name: str, rows: Int64[np.ndarray, " n"], *, final: bool = False) -> LobsDICEError:
    """The error for empty cells; `final` if they may be empty in the last row of an episode."""
    hint = (
        "; if they belong to final states, recordings share the name of an episode, or the times "
        "of one go back"
    )
    return LobsDICEError(
        f"column '{name}', row {rows[0]}: the cell is empty ({plural(len(rows), 'such cell')} in "
        "the column); remove these rows, and split the episodes there with `max_gap`"
        f"{hint if final else ''}"
    )


def _cells(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A column as an array (rows, 1), or (rows, width) if it holds lists, and its empty rows."""
    column = whole_column(table, name)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(column, name, missing), missing
    return _numeric(column, name).reshape(-1, 1), missing


def _lists(column: Any, name: str, missing: Bool[np.ndarray, " rows"]) -> np.ndarray:
    sizes = np.asarray(pc.list_value_length(column).fill_null(0))  # pyright: ignore[reportAttributeAccessIssue]
    width = max(1, sizes.max(initial=0))
    if (bad := np.flatnonzero((sizes != width) & ~missing)).size:
        raise LobsDICEError(
            f"column '{name}', row {bad[0]}: the list has {plural(int(sizes[bad[0]]), 'number')}, "
            f"but others have {width}"
        )
    flat = _numeric(column.drop_null().flatten(), name)
    values = np.zeros((len(sizes), width), flat.dtype)
    values[~missing] = flat.reshape(-1, width)
    return values


def _numeric(column: Any, name: str) -> np.ndarray:
    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        find_text({name: column}, [name])
        if not is_text(column):
            raise LobsDICEError(f"column '{name}' must hold numbers, not {kind}")
        return np.array([_number(cell) for cell in column.to_pylist()])
    if column.null_count:
        column = column.fill_null(False if pa.types.is_boolean(kind) else 0)
    return column.to_numpy(zero_copy_only=False)


def is_blank(table: pa.Table, names: Sequence[str]) -> bool:
    """True if all cells of these columns are empty."""
    return all(table[name].null_count == table.num_rows for name in names)


def names_of(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """A name for each number in a row: a column of lists `state` has `state_0`, `state_1`, ..."""
    found = []
    for name in columns:
        kind = table[name].type
        if (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            width = pc.max(pc.list_value_length(table[name])).as_py() or 1  # pyright: ignore[reportAttributeAccessIssue]
            found += [f"{name}_{i}" for i in range(width)]
        else:
            found.append(name)
    return found


def numbers(table: pa.Table, name: str, may_be_empty: np.ndarray | None = None) -> np.ndarray:
    """A column with one number a row."""
    values, _ = matrix(table, (name,), may_be_empty)
    if values.shape[1] != 1:
        raise LobsDICEError(f"column '{name}' must hold one number a row, not lists")
    return values[:, 0]


def places(table: pa.Table, name: str, episode: Int64[np.ndarray, " rows"]) -> np.ndarray:
    """Numbers that order the rows of episodes as the numbers or the times of a column do."""
    column = whole_column(table, name)
    times = _times(column, name)
    if not pa.types.is_temporal(times.type):
        return numbers(table, name)
    _refuse_empty(times, name)
    if pa.types.is_time(times.type) or (times is not column and is_clock(column)):
        refuse_midnight(seconds(table, name), episode, name)
    return pc.rank(times, tiebreaker="dense").to_numpy()  # pyright: ignore[reportAttributeAccessIssue]


def seconds(table: pa.Table, name: str) -> np.ndarray:
    """The times of a column in seconds since the first, or its numbers as they are."""
    column = _times(whole_column(table, name), name)
    kind = column.type
    if not pa.types.is_temporal(kind):
        return numbers(table, name)
    whole = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy()
    unit = 1 / 86400 if pa.types.is_date32(kind) else SECOND[getattr(kind, "unit", "ms")]
    return (whole - whole.min()) / unit


def holds_times(table: pa.Table, name: str) -> bool:
    """True if a column holds times, and not numbers."""
    return pa.types.is_temporal(_times(whole_column(table, name), name).type)


def _times(column: Any, name: str) -> Any:
    """The column; if it holds texts that are all times, as times."""
    if not is_text(column):
        return column
    _refuse_empty(column, name)
    times = nanoseconds(column, name)
    return column if times is None else pa.array(times, pa.timestamp("ns"))


def is_text(column: Any) -> bool:
    """True if the column holds texts."""
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def is_truth(column: Any) -> bool:
    """True if a column of texts holds truth values and nothing else."""
    words = {cell.strip().lower() for cell in column.unique().to_pylist() if cell is not None}
    return bool(words & TRUTH.keys()) and words <= {*TRUTH, *map(str.lower, EMPTY)}


def decoded(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with texts in place of columns of bytes, in which some programs store texts."""
    for name in names:
        kind = table[name].type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_binary(plain) or pa.types.is_large_binary(plain):
            column = whole_column(table, name)
            try:
                texts = column.cast(pa.string())
            except pa.ArrowInvalid as error:
                raise LobsDICEError(f"column '{name}': {NOT_UTF8}") from error
            table = table.set_column(table.column_names.index(name), name, texts)
    return table


def whole_column(table: pa.Table, name: str) -> Any:
    """A column as one array of plain values, whatever chunks or dictionary it is stored in."""
    column = table[name]
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def codes(table: pa.Table, name: str) -> Int64[np.ndarray, " rows"]:
    """The place of each row's value among the distinct values, in order of appearance."""
    column = whole_column(table, name)
    _refuse_empty(column, name)
    return column.dictionary_encode().indices.to_numpy().astype(np.int64)


def _refuse_empty(column: Any, name: str) -> None:
    if column.null_count:
        row = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise LobsDICEError(f"column '{name}', row {row}: the cell is empty")


def check_columns(values: Float32[np.ndarray, "n width"], names: Sequence[str]) -> None:
    """Raise an error that names the first column and row with NaN or infinity."""
    if np.isfinite([values.min(), values.max()]).all():
        return
    if len(names) != values.shape[1]:  # a column of lists has one name for several numbers
        check_finite(names[0], values)
    row, column = np.argwhere(~np.isfinite(values))[0]
    raise LobsDICEError(
        f"column '{names[column]}', row {row}: {values[row, column]} is not a finite float32 number"
    )


def refuse_words(table: Any, actions: Sequence[str]) -> None:
    """Raise an error if one of several columns of actions holds words in all its cells."""
    for name in actions if len(actions) > 1 else ():
        column = table[name]
        cells = column.unique().to_pylist() if is_text(column) else []
        filled = [cell for cell in cells if cell is not None and cell.strip() not in EMPTY]
        if filled and not any(_is_number(cell, ",") or _is_number(cell) for cell in filled):
            raise LobsDICEError(
                f"column '{name}' holds words, such as {filled[0][:60]!r}; words name actions only "
                "in a single column: join the columns into one, with few values of each, or write "
                "numbers for the words"
            )


def find_text(table: Any, names: Sequence[str], decimal: str = ".") -> None:
    """Raise an error that names the first cell that is not a number, if there is one."""
    for name in names:
        for row, cell in enumerate(table[name].to_pylist()):
            text = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
            filled = isinstance(text, str) and text.strip() not in EMPTY
            if filled and not _is_number(text, decimal):
                hint = _sign_hint(text, decimal) or _words_hint(table[name], row)
                raise LobsDICEError(
                    f"column '{name}', row {row}: {text[:60]!r} is not a number{hint}"
                )


def _sign_hint(text: str, decimal: str) -> str:
    """A hint if the cell would be a number with another sign before decimals."""
    other = next((sign for sign in ".," if sign != decimal and _is_number(text, sign)), None)
    if other is None or decimal in text:
        return ""
    return f" with {decimal!r} before decimals; if {other!r} is that sign, state it as `decimal`"


def _words_hint(column: Any, row: int) -> str:
    """A hint if a column holds words alone, or if its first row may hold a unit."""
    filled = [str(cell) for cell in column.unique().to_pylist() if cell not in (None, *EMPTY)]
    if not any(character.isdigit() for cell in filled for character in cell):
        return "; words are no states: give each word a column of its own, with 0 and 1"
    number = re.match(r"[-+\u2212\d]", column[row].as_py().strip())
    return "" if row or number else "; if this row holds units, remove it"


def _is_number(text: str, decimal: str = ".") -> bool:
    with suppress(ValueError):
        float(text.replace(decimal, "."))
        return decimal == "." or "." not in text
    return text.strip().lower() in TRUTH


def _number(text: str | None) -> float:
    """The number of a text that is one, or a truth value; NaN if the cell is empty."""
    if text is None or text.strip() in EMPTY:
        return np.nan
    return TRUTH[text.strip().lower()] if text.strip().lower() in TRUTH else float(text)
