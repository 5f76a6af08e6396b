"""Hyperparameters that are given as text, such as width=64, for all algorithms of an experiment."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from lobsdice import console
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.algorithms import Algorithm

#: The words that stand for a truth value.
TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """The values by their names, of texts such as nu-rate=0.001."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise LobsDICEError(f"{text!r} does not set a hyperparameter; write NAME=VALUE")
        found[name.replace("-", "_")] = value
    return found


def names(algorithm: Any) -> set[str]:
    """The names of the hyperparameters of an algorithm or of its class."""
    return {f.name for f in fields(algorithm)}


def given(algorithm: Any, values: Mapping[str, Any]) -> "Algorithm":
    """The algorithm with those of the values that it has; text becomes a number or a truth."""
    known = names(algorithm)
    mine = {key: like(getattr(algorithm, key), x) for key, x in values.items() if key in known}
    return replace(algorithm, **mine)


def check(texts: Sequence[str], here: Collection[str]) -> None:
    """Raise if no algorithm has a named hyperparameter; warn if none has it that is run `here`."""
    from lobsdice.algorithms import ALGORITHMS

    anywhere = {name for algorithm in ALGORITHMS.values() for name in names(algorithm)}
    for name in assignments(texts):
        if name not in anywhere:
            raise LobsDICEError(f"no algorithm has the hyperparameter {name!r}")
        if name not in here:
            console.warn(f"{name} changes nothing here: none of these algorithms has it")


def like(usual: Any, value: Any) -> Any:
    """The value with the type of the usual one."""
    if isinstance(usual, bool):
        if (word := str(value).lower()) not in TRUTHS:
            raise LobsDICEError(f"{value!r} should be a truth value: {' or '.join(TRUTHS)}")
        return TRUTHS[word]
    try:
        return type(usual)(value)
    except ValueError as error:
        raise LobsDICEError(f"{value!r} should be a number like {usual}") from error
