"""Times in texts, in any form that has only one meaning."""

from contextlib import suppress
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int64

from lobsdice.errors import LobsDICEError

#: Dates that can be read in one way only. With points, the day comes first in all countries.
DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%a %d %b %Y", "%a %b %d %Y"),
)
#: Dates that may also be read in the other way.
DAY_FIRST, MONTH_FIRST = ("%d/%m/%Y", "%d-%m-%Y"), ("%m/%d/%Y", "%m-%d-%Y")
CLOCKS = ("%H:%M:%S", "%H:%M", "%H%M%S", "%I:%M:%S %p", "%I:%M %p")
#: The form of `date` and of C's `ctime`, whose year is at the end.
AT_THE_END = "%a %b %d %H:%M:%S %Y"

#: In seconds.
HALF_A_DAY = 12 * 3600


def nanoseconds(column: Any, name: str) -> Int64[np.ndarray, " rows"] | None:
    """The times of a column of texts, which has no empty cell; None if they are no times."""
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        with suppress(pa.ArrowInvalid):
            return np.asarray(column.cast(kind).cast(pa.int64()))
    text, fraction = _parts(column)
    found = {form: x for form in _forms(text[0].as_py()) if (x := _parsed(text, form)) is not None}
    if not found:
        return None
    values = list(found.values())
    if any((value != values[0]).any() for value in values[1:]):
        raise LobsDICEError(
            f"column '{name}': {column[0].as_py()!r} may have the day first or the month first; "
            "write dates as 2026-03-01"
        )
    return values[0] + fraction


def is_clock(column: Any) -> bool:
    """True if a column of texts holds times without dates."""
    text, _ = _parts(column)
    return any(_parsed(text, clock) is not None for clock in CLOCKS if _fits(text[0], clock))


def refuse_midnight(
    times: Float[np.ndarray, " rows"], episode: Int64[np.ndarray, " rows"], name: str
) -> None:
    """Raise an error if times without dates go back to the morning within an episode."""
    order = np.argsort(episode, kind="stable")
    back = (np.diff(times[order]) < -HALF_A_DAY) & (np.diff(episode[order]) == 0)
    if back.any():
        raise LobsDICEError(
            f"column '{name}', row {order[1:][back][0]}: the time goes back, as at midnight; "
            "write the date, too"
        )


def _parts(column: Any) -> tuple[Any, Int64[np.ndarray, " rows"]]:
    """The texts in whole seconds with blanks between date and time, and the nanoseconds left."""
    text = pc.utf8_trim_whitespace(column)  # pyright: ignore[reportAttributeAccessIssue]
    found = pc.extract_regex(text, r":\d\d:\d\d[.,](?P<digits>\d{1,9})")  # pyright: ignore[reportAttributeAccessIssue]
    digits = pc.utf8_rpad(pc.fill_null(pc.struct_field(found, 0), ""), 9, "0")  # pyright: ignore[reportAttributeAccessIssue]
    for pattern, by in (
        (r"(:\d\d:\d\d)[.,]\d{1,9}", r"\1"),
        (r"(\d)[Tt_](\d)", r"\1 \2"),
        (r", *", " "),
        (r"  +", " "),
        (r"(\d)([AaPp][Mm])$", r"\1 \2"),
    ):
        text = pc.replace_substring_regex(text, pattern, by)  # pyright: ignore[reportAttributeAccessIssue]
    return text, np.asarray(digits.cast(pa.int64()))


def _forms(first: str) -> list[str]:
    """The forms that fit the first text."""
    dates = (*DATES, *DAY_FIRST, *MONTH_FIRST)
    dated = [date + clock for date in dates for clock in ("", *(f" {c}" for c in CLOCKS))]
    return [form for form in (*dated, *CLOCKS, AT_THE_END) if _fits(first, form)]


def _fits(text: Any, form: str) -> bool:
    with suppress(ValueError):
        datetime.strptime(str(text), form)
        return True
    return False


def _parsed(text: Any, form: str) -> Int64[np.ndarray, " rows"] | None:
    found = pc.strptime(text, format=form, unit="s", error_is_null=True)  # pyright: ignore[reportAttributeAccessIssue]
    return None if found.null_count else np.asarray(found.cast(pa.int64())) * 10**9
