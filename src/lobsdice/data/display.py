"""Short displays of objects for Python and notebooks: a title and a few facts, on one screen."""

from collections.abc import Mapping, Sequence
from html import escape

from lobsdice.errors import plain

#: The most characters of a fact.
LONGEST = 100

Facts = Mapping[str, str]


def text_of(title: str, facts: Facts) -> str:
    """A line for each fact, for `__repr__`."""
    width = max(map(len, facts))
    lines = (f"  {name:<{width}}  {_short(fact)}" for name, fact in facts.items())
    return "\n".join((title, *lines))


def html_of(title: str, facts: Facts) -> str:
    """A small table, for notebooks."""
    rows = (
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(_short(fact))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<strong>{escape(title)}</strong><table>{''.join(rows)}</table>"


def listed(
    names: Sequence[object], most: int = 8, *, longest: int | None = None, none: str = ""
) -> str:
    """The first names, cut at `longest` characters, and the number of the others."""
    first = ", ".join(_cut(str(name), longest) for name in names[:most])
    return f"{first} and {len(names) - most} more" if len(names) > most else first or none


def _short(fact: str) -> str:
    return _cut(plain(fact), LONGEST)


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[:longest]}..."
