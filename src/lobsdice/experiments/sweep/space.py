"""The space of a sweep: the hyperparameters that vary, and what values they may have."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from lobsdice.errors import LobsDICEError
from lobsdice.training.recipe import Recipe

#: The values of some hyperparameters, by their names.
Setting = Mapping[str, Any]


class Range(NamedTuple):
    """All real numbers from `low` to `high`."""

    low: float
    high: float
    log: bool


class Choice(NamedTuple):
    """Some values."""

    values: tuple[Any, ...]


Space = Mapping[str, Range | Choice]


def read_space(texts: Sequence[str], recipe: Recipe) -> Space:
    """The space that texts describe, such as `alpha=0.01..1:log` and `width=128,256`."""
    space = dict(_read_one(text, recipe) for text in texts)
    if not space:
        names = ", ".join(_defaults(recipe))
        raise LobsDICEError(
            f"name what varies with --space, such as alpha=0.01..1:log; there are: {names}"
        )
    return space


def _read_one(text: str, recipe: Recipe) -> tuple[str, Range | Choice]:
    name, _, values = text.partition("=")
    name, known = name.strip().replace("-", "_"), _defaults(recipe)
    if name not in known:
        raise LobsDICEError(f"there is no hyperparameter {name!r}, only {', '.join(known)}")
    if not values:
        raise LobsDICEError(f"--space {text} has no values; write {name}=LOW..HIGH or {name}=A,B")
    found = _range(values) if ".." in values else _choice(values, known[name])
    if isinstance(found, Range) and not isinstance(known[name], float):
        raise LobsDICEError(f"{name} is not a real number; list its values: --space {name}=A,B")
    for value in found.values if isinstance(found, Choice) else (found.low, found.high):
        applied(recipe, {name: value})  # raises if the algorithm does not allow it
    return name, found


def _range(text: str) -> Range:
    ends, _, kind = text.partition(":")
    try:
        low, high = (float(end) for end in ends.split(".."))
    except ValueError as error:
        raise LobsDICEError(f"{text!r} is not a range of numbers such as 0.01..1") from error
    if kind not in ("", "log") or not low < high or (kind and low <= 0):
        raise LobsDICEError(
            f"{text!r} is not a range: it is LOW..HIGH with LOW below HIGH, or LOW..HIGH:log with "
            "both above 0"
        )
    return Range(low, high, kind == "log")


def _choice(text: str, default: Any) -> Choice:
    words = [word.strip() for word in text.split(",")]
    try:
        if isinstance(default, bool):
            values = [{"true": True, "false": False}[word.lower()] for word in words]
        else:
            values = [type(default)(word) for word in words]
    except (KeyError, ValueError) as error:
        kind = type(default).__name__
        raise LobsDICEError(f"{text!r} is not a list of values of type {kind}") from error
    return Choice(tuple(dict.fromkeys(values)))


def applied(recipe: Recipe, setting: Setting) -> Recipe:
    """The recipe with the values of a setting."""
    algorithm: Any = recipe.algorithm
    mine = {f.name for f in fields(algorithm)} & set(setting)
    others = {name: value for name, value in setting.items() if name not in mine}
    return replace(
        recipe,
        algorithm=replace(algorithm, **{name: setting[name] for name in mine}),
        training=replace(recipe.training, **others),
    )


def static(setting: Setting) -> tuple:
    """The part that the settings of one fleet must share: all but real numbers."""
    return tuple((k, v) for k, v in sorted(setting.items()) if not isinstance(v, float))


def _defaults(recipe: Recipe) -> dict[str, Any]:
    """The hyperparameters that may vary, with their values; steps may not."""
    parts: tuple[Any, ...] = (recipe.algorithm, recipe.training)
    found = {f.name: getattr(part, f.name) for part in parts for f in fields(part)}
    return {name: x for name, x in found.items() if name != "steps" and x is not None}
