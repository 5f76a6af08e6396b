"""The algorithms by name, for the command line, run folders and reports."""

from typing import ClassVar, Protocol, TypeVar

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


def register(kind: Kind) -> Kind:
    """Register an algorithm under the name of its module; decorates its class."""
    name = kind.__module__.rpartition(".")[2]
    if ALGORITHMS.get(name, kind).__module__ != kind.__module__:
        raise LobsDICEError(f"there is an algorithm {name!r} already; rename the new one's module")
    ALGORITHMS[name] = kind
    return kind
