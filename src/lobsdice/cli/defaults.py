"""What the help of an option says about its default: in words, or as a value, but not both.

A docstring that has the words, `(default: ...)`, serves whoever reads the code, too, and needs no
tyro where the option is declared.
"""

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Annotated, Any, get_args, get_origin

from tyro.conf import arg
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

#: A docstring that says what happens without the option.
IN_WORDS = "(default"
#: How tyro writes a default that is nothing: `None`, or an empty list.
NOTHING = ("None", "")

Help = str | Callable[[], str | None] | None


def said_once() -> ConstructorRegistry:
    """Let tyro read dataclasses as ever, except for how help speaks of defaults."""
    registry = ConstructorRegistry()
    registry.struct_rule(_fields_said_once)
    return registry


def _fields_said_once(info: StructTypeInfo) -> StructConstructorSpec | None:
    if not is_dataclass(info.type) or _fields_said_once in info.markers:
        return None
    # The mark keeps this rule out of the second asking, which tyro's own answers.
    marked = replace(info, markers=(*info.markers, _fields_said_once))
    spec = ConstructorRegistry.get_struct_spec(marked)
    if not isinstance(spec, StructConstructorSpec):
        return None
    return replace(spec, fields=tuple(map(_said_once, spec.fields)))


def _said_once(field: StructFieldSpec) -> StructFieldSpec:
    helptext = partial(_in_one_paragraph, field.helptext)
    kind: Any = field.type
    kind, *annotations = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    # What a field says itself comes later, and so prevails.
    hint = arg(help_behavior_hint=partial(_hint, helptext))
    return replace(field, type=Annotated[(kind, hint, *annotations)], helptext=helptext)


def _in_one_paragraph(helptext: Help) -> str | None:
    """The docstring without the line breaks that tyro leaves before what is no letter."""
    found = helptext() if callable(helptext) else helptext
    return found and " ".join(found.split())


def _hint(helptext: Callable[[], str | None], default: str) -> str:
    if IN_WORDS in (helptext() or ""):
        return ""
    return f"(default: {'none' if default in NOTHING else default})"
