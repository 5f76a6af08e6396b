"""Compare settings: nested plain data, such as config.json holds."""

from collections.abc import Mapping, Sequence
from typing import Any


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
