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


def listed(names: Sequence[object], most: int = 8) -> str:
    """The first names, and the number of the others."""
    first = ", ".join(map(str, names[:most]))
    return f"{first} and {len(names) - most} more" if len(names) > most else first


def _short(fact: str) -> str:
    fact = plain(fact)
    return fact if len(fact) <= LONGEST else f"{fact[:LONGEST]}..."
