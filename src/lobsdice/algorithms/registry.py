"""The algorithms by name, for the command line, run folders and reports."""

from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, TypeVar

from lobsdice.algorithms.base import Algorithm
from lobsdice.errors import LobsDICEError


class Listed(Algorithm, Protocol):
    """An algorithm whose class has the texts for a list."""

    summary: ClassVar[str]
    citation: ClassVar[str]
    needs: ClassVar[str]
    """The data that it learns from."""


#: An algorithm's name is that of its module.
ALGORITHMS: dict[str, type[Listed]] = {}

#: Values of `needs` that several algorithms share.
STATE_PAIRS = "demonstrations (s, s'); logs (s, a, s')"
STATES = "demonstrations (s); logs (s, a, s')"

Kind = TypeVar("Kind", bound=type)


def resolve(given: Any) -> Algorithm:
    """An algorithm; by its name or its class, the one with default hyperparameters."""
    if isinstance(given, str):
        names = {kind.__name__: name for name, kind in ALGORITHMS.items()}
        name = names.get(given, given)
        if name not in ALGORITHMS:
            close = get_close_matches(given.lower(), ALGORITHMS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(ALGORITHMS)}"
            raise LobsDICEError(f"there is no algorithm {given!r}; {hint}")
        return ALGORITHMS[name]()
    if isinstance(given, type) and hasattr(given, "loss"):
        return given()
    if not isinstance(given, Algorithm):
        raise LobsDICEError(
            f"`algorithm` is a value of type {type(given).__name__}; it must be an algorithm, such "
            "as ld.LobsDICE(), or its name"
        )
    return given


def register(kind: Kind) -> Kind:
    """Register an algorithm under the name of its module; decorates its class."""
    name = kind.__module__.rpartition(".")[2]
    if ALGORITHMS.get(name, kind).__module__ != kind.__module__:
        raise LobsDICEError(f"there is an algorithm {name!r} already; rename the new one's module")
    ALGORITHMS[name] = kind
    return kind
