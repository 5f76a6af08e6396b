"""Words that an option names as marks, and that no cell of the column holds.

One file may lack a word that another has: no demonstration has an alarm. So a warning waits until
all files are read.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lobsdice.data.display import listed
from lobsdice.errors import DataWarning

#: The most words in a sentence, and the most characters of each.
MOST, LONGEST = 20, 60


class Words(str):
    """The words that a column of one file holds. It has no text: it is not yet a sentence."""

    column: str
    wanted: tuple[str, ...]
    held: tuple[str, ...]

    @classmethod
    def of(cls, column: str, wanted: Sequence[str], held: Sequence[str]) -> "Words":
        """The words of a column, of which an option names those that are wanted."""
        found = cls()
        found.column, found.wanted, found.held = column, tuple(wanted), tuple(held)
        return found


#: The words of all files of a command, while these are read.
_waiting: ContextVar[list[Words] | None] = ContextVar("waiting", default=None)


@contextmanager
def words_of_all_files() -> Iterator[None]:
    """Warn of words that no cell holds once, after all files are read."""
    if _waiting.get() is not None:
        yield
        return
    found: list[Words] = []
    token = _waiting.set(found)
    try:
        yield
    finally:
        _waiting.reset(token)
    for sentence in missing(found):
        warnings.warn(sentence, DataWarning, stacklevel=3)


def sentences(found: Sequence[str]) -> list[str]:
    """The sentences among these, with those about missing words if no other file follows."""
    words = [item for item in found if isinstance(item, Words)]
    others = [item for item in found if not isinstance(item, Words)]
    if (waiting := _waiting.get()) is not None:
        waiting += words
        return others
    return [*others, *missing(words)]


def missing(found: Sequence[Words]) -> list[str]:
    """A sentence for each option that names a word that none of the files holds."""
    held: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for words in found:
        held.setdefault((words.column, words.wanted), []).extend(words.held)
    said = []
    for (column, wanted), cells in held.items():
        known = list(dict.fromkeys(cells))
        if lacking := [word for word in wanted if word not in known]:
            named = " or ".join(repr(word[:LONGEST]) for word in lacking)
            holds = listed(known, MOST, longest=LONGEST, none="only empty cells")
            said.append(f"no cell of '{column}' is {named}; it holds {holds}")
    return said
