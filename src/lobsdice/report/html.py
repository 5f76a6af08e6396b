"""HTML elements as functions, so that no text enters a page unescaped and none needs a template."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.data.files import atomic
from lobsdice.errors import LobsDICEError, with_shell_options

#: Elements without content.
VOID = ("br", "col", "img", "input", "link", "meta")
#: Elements that hold sentences.
SENTENCES = ("p", "small")
#: Words in backticks.
CODE = re.compile("`([^`]+)`")
#: Characters that would make a page ill-formed.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """Text that is HTML already."""


def tag(name: str, /, *content: Any, **attributes: Any) -> Html:
    """Return an element; `class_` and `data_x` are the attributes class and data-x.

    Attributes and content that are None are left out. A list or generator is content one by one.
    In sentences, what stands in backticks is code, and options are spelled as in the shell.
    """
    given = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    head = "".join([name, *(f' {k}="{_escape(v)}"' for k, v in given.items())])
    inner = map(_sentence, content) if name in SENTENCES else content
    return Html(f"<{head}/>" if name in VOID else f"<{head}>{join(*inner)}</{name}>")


def _sentence(part: Any) -> Any:
    if not isinstance(part, str) or isinstance(part, Html):
        return part
    pieces = CODE.split(with_shell_options(part))
    return join(*(tag("code", piece) if i % 2 else piece for i, piece in enumerate(pieces)))


def join(*parts: Any) -> Html:
    """Return the parts one after the other."""
    return Html("".join(_html(part) for part in parts if part is not None))


def _html(part: Any) -> str:
    if isinstance(part, Html):
        return part
    if isinstance(part, str):
        return _escape(part)
    return join(*part) if isinstance(part, Iterable) else _escape(words(part))


def _escape(value: Any) -> str:
    return escape(FORBIDDEN.sub("\ufffd", str(value)))


def number(value: float | int) -> str:
    """Return a number with four significant digits, or without decimals from 1000 on."""
    if isinstance(value, int) or 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def words(value: Any) -> str:
    """Return plain data as text for people."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {words(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(map(words, value)) or "none"
    return str(value)


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading and the key of its values in each row."""

    key: str
    heading: str = ""
    bar: bool = False
    """True if values are also drawn as bars; they must be shares, from 0 to 1."""
    percent: bool = False

    @property
    def title(self) -> str:
        return self.heading or self.key.replace("_", " ")


def table(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    label: str,
    sortable: bool = False,
    sorted_by: str | None = None,
    most: int = 1000,
) -> Html:
    """Return a table in a box that scrolls. The label is for screen readers.

    `sorted_by` is the key that the rows are sorted by already, the largest first.
    """
    if not rows:
        return tag("p", "None.", class_="quiet")
    shown = [_Shown.of(column, [row[column.key] for row in rows]) for column in columns]
    head = tag("tr", (column.heading(sortable, sorted_by) for column in shown))
    body = (tag("tr", (column.cell(row) for column in shown)) for row in rows[:most])
    kind = "sortable" if sortable else None
    whole = tag("table", tag("thead", head), tag("tbody", body), class_=kind, aria_label=label)
    rest = f"{most:,} of {len(rows):,} are shown." if len(rows) > most else None
    # The tab index lets the keyboard scroll the box.
    box = tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)
    return join(box, rest and tag("p", rest, class_="quiet"))


class _Shown(NamedTuple):
    """A column, the kind of its values, and the largest of them."""

    column: Column
    kind: str | None
    largest: float

    @classmethod
    def of(cls, column: Column, values: Sequence[Any]) -> "_Shown":
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        return cls(column, "number" if numbers else None, max(numbers, default=0.0))

    def heading(self, sortable: bool, sorted_by: str | None) -> Html:
        title = self.column.title
        inner = tag("button", title, type="button") if sortable else title
        order = "descending" if self.column.key == sorted_by else None
        return tag("th", inner, scope="col", class_=self.kind, aria_sort=order)

    def cell(self, row: Mapping[str, Any]) -> Html:
        value = row[self.column.key]
        if not isinstance(value, int | float):
            return tag("td", value if isinstance(value, Html) else words(value), class_=self.kind)
        bar = None
        if self.column.bar:
            width = f"width:{value / (self.largest or 1):.1%}"
            bar = tag("span", tag("i", style=width), class_="bar")
        shown = f"{value:.1%}" if self.column.percent else words(value)
        return tag("td", bar, shown, class_=self.kind, data_value=value)


def facts(values: Mapping[str, Any], *, label: str) -> Html:
    """Return a table of names and values."""
    rows = (
        tag("tr", tag("th", key.replace("_", " "), scope="row"), tag("td", _fact(value)))
        for key, value in values.items()
    )
    return tag("div", tag("table", tag("tbody", rows), class_="facts", aria_label=label))


def _fact(value: Any) -> str:
    return value if isinstance(value, Html) else words(value)


def section(title: str, *content: Any, name: str | None = None) -> Html:
    """Return a part of a page with its heading; links lead to its name."""
    return tag("section", tag("h2", title), *content, id=name)


def document(title: str, *content: Any) -> str:
    """Return a whole page."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Nothing is loaded, even if a file name contains HTML.
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", Html(_resource("style.css"))),
    )
    # The comments hide from JavaScript the marks that XML needs.
    script = tag("script", Html(f"/*<![CDATA[*/{_resource('page.js')}/*]]>*/"))
    body = tag("body", tag("main", *content), script)
    page = tag("html", tag("head", *head), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def write_page(path: Path, page: str) -> None:
    """Write a page, all of it or nothing; replace a page of ours, and no other file."""
    if path.is_file() and not _is_ours(path.read_bytes()):
        raise LobsDICEError(f"{path} exists, and is no page of lobsdice; choose another name")
    with atomic(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _is_ours(contents: bytes) -> bool:
    return contents.startswith(b"<!DOCTYPE html>") and b"lobsdice" in contents


POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@cache
def _resource(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
