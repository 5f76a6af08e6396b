"""Compare and check settings: nested plain data, such as config.json holds."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

#: Levels of nesting that settings may have.
DEEPEST = 20


def flatten(tree: Any, name: str = "") -> dict[str, Any]:
    """Return nested settings as one level, with names such as `runs[0].algorithm.alpha`.

    A list also has its length, under a name such as `number of runs`.
    """
    if isinstance(tree, Mapping):
        parts = {f"{name}.{key}".lstrip("."): value for key, value in tree.items()}
        return {k: v for key, value in parts.items() for k, v in flatten(value, key).items()}
    if isinstance(tree, list):
        items = (flatten(value, f"{name}[{i}]") for i, value in enumerate(tree))
        return {f"number of {name}": len(tree)} | {k: v for item in items for k, v in item.items()}
    return {name: tree}


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the names whose values are not the same everywhere, and these values."""
    names = dict.fromkeys(name for one in settings for name in one)
    values = {name: [one.get(name) for one in settings] for name in names}
    return {name: found for name, found in values.items() if any(x != found[0] for x in found)}


def misfit(tree: Any, shape: Any, name: str = "it") -> str | None:
    """Say which part of some plain data has the wrong type; None if all is well.

    A shape is a type, a list with the shape of all items, or a dictionary with the shapes of the
    keys that must exist.
    """
    if isinstance(shape, Mapping):
        if not isinstance(tree, Mapping):
            return f"{name} is not a group of settings"
        if missing := [key for key in shape if key not in tree]:
            return f"{name} has no {missing[0]}"
        parts = [(tree[key], inner, key) for key, inner in shape.items()]
    elif isinstance(shape, list):
        if not isinstance(tree, list):
            return f"{name} is not a list"
        parts = [(part, shape[0], f"{name}[{i}]") for i, part in enumerate(tree)]
    else:
        return None if fits(tree, shape) else f"{name} is {str(tree)[:40]!r}"
    return next((found for part in parts if (found := misfit(*part))), None)


def too_deep(tree: Any, levels: int = DEEPEST) -> bool:
    """True if plain data has more than so many levels, which would exhaust Python's stack."""
    parts = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list) else ()
    return levels < 0 or any(too_deep(part, levels - 1) for part in parts)


def fits(value: Any, hint: Any) -> bool:
    """True if a value from JSON can stand for a field with this annotation."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if kind is Literal:
        return value in inner
    if kind is tuple:
        return isinstance(value, list | tuple) and all(fits(one, inner[0]) for one in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (str, bool, NoneType, dict) else True


def as_words(options: Any) -> list[str]:
    """The words of a command line that set the options which differ from their defaults."""
    found = []
    for field in fields(options):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        found.append(f"--{field.name.replace('_', '-')}")
        if value is not True:
            found += map(str, value if isinstance(value, tuple | list) else [value])
    return found


def wrong_field(kind: type, values: Mapping[str, Any]) -> str | None:
    """Say which of the values cannot stand for its field of a dataclass; None if all can."""
    hints = get_type_hints(kind)
    wrong = (name for name, value in values.items() if not fits(value, hints.get(name, Any)))
    return next((f"{name} is {str(values[name])[:40]!r}" for name in wrong), None)
