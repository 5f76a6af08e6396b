"""Write the reference of the API into docs/api/, so that it can be read in the repository, too.

    python docs/reference.py

A line `::: lobsdice.module.name` of a page becomes a block: a comment with that line, the text from
the docstrings, and a comment that ends it. Blocks are written anew each time. A test fails if they
do not say what the code says.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "api"
#: A block, or the line that asks for one.
ENTRY = re.compile(
    r"^<!-- ::: (?P<block>[\w.]+) -->\n.*?^<!-- end -->$|^::: (?P<line>[\w.]+)$",
    re.DOTALL | re.MULTILINE,
)
#: The default of a field in the call that makes it.
DEFAULT = re.compile(r"^\w+\(.*?\bdefault(?:_factory)?=(?P<value>.+)\)$")
#: The longest signature in one line.
WIDTH = 88


def write() -> None:
    """Write all pages."""
    package = load()
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(rendered(page.read_text(encoding="utf-8"), package), encoding="utf-8")


def load() -> Any:
    """The package as it is written; nothing of it is imported."""
    return griffe.load("lobsdice", search_paths=[ROOT / "src"])


def rendered(text: str, package: Any) -> str:
    """The text of a page with all its blocks written anew."""

    def block(found: re.Match[str]) -> str:
        name = found["block"] or found["line"]
        described = "\n".join(describe(package[name.removeprefix("lobsdice.")]))
        return f"<!-- ::: {name} -->\n\n{described}\n\n<!-- end -->"

    return ENTRY.sub(block, text)


def describe(thing: Any) -> Iterator[str]:
    """The lines about a function or a class."""
    thing = thing.final_target if thing.is_alias else thing
    yield f"### {thing.name}"
    yield ""
    if thing.is_function:
        yield from described_function(thing)
        return
    yield from (f"`class {thing.path}`", "", docstring(thing))
    fields, methods = members(thing)
    if fields:
        yield from ("", *map(field, fields))
    for method in methods:
        yield from ("", f"#### {thing.name}.{method.name}", "")
        yield from described_function(method) if method.is_function else (docstring(method),)


def members(thing: Any) -> tuple[list[Any], list[Any]]:
    """The documented public fields, inherited ones included, and the class's own methods."""
    fields = [
        one
        for one in thing.all_members.values()
        if one.is_attribute and one.is_public and "property" not in one.labels and one.docstring
        and not str(one.annotation).startswith("ClassVar")
    ]  # fmt: skip
    methods = [
        one
        for one in thing.members.values()
        if one.is_public
        and one.docstring
        and (one.is_function or (one.is_attribute and "property" in one.labels))
    ]
    return fields, methods


def field(one: Any) -> str:
    """A line of the list of fields: the name, the type, the default, and what it means."""
    text = " ".join(docstring(one).split())
    default = DEFAULT.search(str(one.value))
    value = default["value"] if default else one.value
    start = f"{one.name}: {one.annotation}"
    return f"- `{start}`: {text}" if value is None else f"- `{start} = {value}`: {text}"


def described_function(function: Any) -> Iterator[str]:
    yield from ("```py", signature(function), "```", "", docstring(function))


def signature(function: Any) -> str:
    """The call of a function: in one line or, if that is too long, a line for each parameter."""
    line = function.signature().replace("(self, ", "(").replace("(self)", "()")
    if len(line) <= WIDTH:
        return line
    start, _, rest = line.partition("(")
    inside, _, result = rest.rpartition(")")
    lines = textwrap.indent(",\n".join(split(inside)), "    ")
    return f"{start}(\n{lines},\n){result}"


def split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no bracket and in no quotes."""
    depth, quoted, part = 0, "", ""
    for letter in text:
        if quoted or letter in "'\"":
            quoted = "" if letter == quoted else quoted or letter
        depth += (letter in "([{") - (letter in ")]}") if not quoted else 0
        if letter == "," and not depth and not quoted:
            yield part.strip()
            part = ""
        else:
            part += letter
    yield part.strip()


def docstring(thing: Any) -> str:
    """The docstring as it is written."""
    return thing.docstring.value.strip() if thing.docstring else ""


if __name__ == "__main__":
    write()
