"""Action spaces: a bounded box of real numbers, or the integers 0 .. n-1."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int, Int64

from lobsdice.errors import LobsDICEError

#: Actions may lie outside their box by this share of its width: float32 rounds the bounds.
SLACK = 1e-5

#: The largest float32 number. Actions are float32, so their bounds must not exceed it.
FLOAT32_MAX = float(np.finfo(np.float32).max)

#: Limits on the mean and the log standard deviation of the Gaussian whose tanh is an action in a
#: box, as in the authors' code; the paper does not mention them. tanh(7) = 1 - 2e-6.
MEAN_BOUND = 7.0
LOG_STD_BOUNDS = (-5.0, 2.0)


@dataclass(frozen=True)
class Box:
    """Continuous actions between `low` and `high`, in the user's units."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The names of the columns of actions, if the file has them."""
    assumed: bool = field(default=False, compare=False, repr=False)
    """True if the bounds are a guess from the actions of one file."""

    def __post_init__(self):
        for name in ("low", "high"):  # lists and arrays are as good as tuples
            object.__setattr__(self, name, tuple(map(float, np.ravel(getattr(self, name)))))
        if len(self.low) != len(self.high) or not self.low:
            raise LobsDICEError(
                "action bounds must have as many lows as highs, and at least one: "
                f"there are {len(self.low)} and {len(self.high)}"
            )
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not -FLOAT32_MAX <= low < high <= FLOAT32_MAX:
                raise LobsDICEError(
                    "action bounds must be finite float32 numbers with low < high, "
                    f"but column {i} has low {low} and high {high}"
                )
        check_names(self.names, len(self.low))

    @classmethod
    def of(cls, low, high, names: Sequence[str] = ()) -> "Box":
        """A box from any two sequences of numbers."""
        low, high = (tuple(map(float, np.ravel(x))) for x in (low, high))
        return cls(low, high, tuple(names))

    @property
    def size(self) -> int:
        """The number of columns of an action."""
        return len(self.low)

    @property
    def feature_size(self) -> int:
        """The number of values that represent an action in a network."""
        return self.size

    def to_json(self) -> dict[str, Any]:
        """The bounds and the names, for files; `space_from_json` reads them."""
        return {"low": list(self.low), "high": list(self.high), **_named(self.names)}

    @property
    def description(self) -> dict[str, Any]:
        """The kind of the space and its bounds, for reports."""
        return {"kind": "continuous", **self.to_json()}

    def _centre_and_half(self):
        low, high = np.asarray(self.low), np.asarray(self.high)
        return (high + low) / 2, (high - low) / 2

    def encode(self, actions: Float[np.ndarray, "*n action"]) -> Float32[np.ndarray, "*n action"]:
        """The actions scaled from the user's units to [-1, 1]."""
        centre, half = self._centre_and_half()
        return np.clip((actions - centre) / half, -1, 1).astype(np.float32)

    def decode(self, actions: Float[np.ndarray, "*n action"]) -> Float32[np.ndarray, "*n action"]:
        """The actions scaled from [-1, 1] to the user's units."""
        centre, half = self._centre_and_half()
        return (centre + half * np.clip(actions, -1, 1)).astype(np.float32)

    def outside(self, actions: Float[np.ndarray, "n action"]) -> Int[np.ndarray, " k"]:
        """The rows of `actions` that lie outside the box."""
        centre, half = self._centre_and_half()
        return np.flatnonzero((np.abs(actions - centre) > half * (1 + 2 * SLACK)).any(axis=1))


@dataclass(frozen=True)
class Discrete:
    """Integer actions 0 .. n-1, which may have names."""

    n: int
    names: tuple[str, ...] = field(default=(), repr=False)
    """The name of each action, if actions are texts: action 0 is the first of these."""
    assumed: bool = field(default=False, compare=False, repr=False)
    """True if the number of actions is a guess from the actions of one file."""

    def __post_init__(self):
        if self.n < 1:
            raise LobsDICEError(f"a discrete action space needs at least one action, not {self.n}")
        check_names(self.names, self.n)
        if len(set(self.names)) != len(self.names):
            raise LobsDICEError("two actions have the same name")

    def __str__(self) -> str:
        return f"Discrete(n={self.n}: {', '.join(self.names)})" if self.names else repr(self)

    @property
    def feature_size(self) -> int:
        """The number of values that represent an action in a network, where it is one-hot."""
        return self.n

    def to_json(self) -> dict[str, Any]:
        """The number of actions and their names, for files; `space_from_json` reads them."""
        return {"n": self.n, **_named(self.names)}

    @property
    def description(self) -> dict[str, Any]:
        """The kind of the space and its number of actions, for reports."""
        return {"kind": "discrete", "count": self.n, **_named(self.names)}

    def outside(self, actions: Int[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
        """The rows of `actions` that are not in this space."""
        return np.flatnonzero((actions < 0) | (actions >= self.n))


ActionSpace = Box | Discrete

#: One action a step: real numbers in a box, or an integer of a discrete space.
Actions = Float32[np.ndarray, "steps action"] | Int64[np.ndarray, " steps"]


def check_names(names: tuple[str, ...], count: int) -> None:
    """Raise an error unless there are no names, or as many as columns or actions."""
    if len(names) not in (0, count):
        raise LobsDICEError(f"there are {len(names)} names of actions instead of {count}")


def _named(names: tuple[str, ...]) -> dict[str, list[str]]:
    return {"names": list(names)} if names else {}


def space_from_json(entries: Any) -> ActionSpace:
    """The space whose `to_json` gave these entries; an error if they describe none."""
    try:
        names = entries.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise LobsDICEError("the names of its actions are not a list of texts")
        if "n" not in entries:
            return Box.of(entries["low"], entries["high"], names)
        if type(entries["n"]) is int:
            return Discrete(entries["n"], tuple(names))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        pass
    raise LobsDICEError("its action space has neither a whole number `n` nor bounds of numbers")
