"""Help that fits the terminal: tyro wraps the descriptions of options, but not the text above."""

import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

#: Columns that text is given even in a narrower terminal.
LEAST = 20
#: Sequences that colour text.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: How lines begin that stay as they are: those of examples, which are to be copied, and of boxes.
FIXED = (" ", "╭", "│", "╰")


class _Caught(io.StringIO):
    """Output that is kept; colours and signs are those of the true output."""

    def __init__(self, true: Any):
        super().__init__()
        self.true = true

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.true.encoding

    def isatty(self) -> bool:
        return self.true.isatty()


@contextmanager
def wrapped_output() -> Iterator[None]:
    """Wrap what is printed, if a line of text is longer than the terminal is wide."""
    caught = _Caught(sys.stdout)
    try:
        with redirect_stdout(caught):
            yield
    finally:
        print(wrapped(caught.getvalue()), end="")


def wrapped(text: str) -> str:
    """The text with lines that fit the terminal, but for examples."""
    return "\n".join(map(_wrapped_line, text.split("\n")))


def _wrapped_line(line: str) -> str:
    plain = COLOUR.sub("", line)
    if plain.startswith(FIXED) or len(plain) <= width():
        return line
    margin = "  " if plain.startswith("usage:") else ""
    # Colours have no width, and only short words have them.
    most = width() + len(line) - len(plain)
    return textwrap.fill(line, most, subsequent_indent=margin, break_long_words=False)


def width() -> int:
    """The columns of the terminal."""
    return max(shutil.get_terminal_size().columns, LEAST)


def entries(summaries: dict[str, str]) -> list[str]:
    """Lines of names and summaries, in two columns."""
    most = max(map(len, summaries))
    margin = " " * (most + 4)
    return [
        textwrap.fill(
            f"  {name:<{most}}  {summary}",
            max(width(), most + LEAST),
            subsequent_indent=margin,
            break_long_words=False,
        )
        for name, summary in summaries.items()
    ]
