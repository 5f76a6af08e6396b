"""The contract of an algorithm: a dataclass of hyperparameters with `init`, `loss` and `rates`.

The training loop owns everything else (batches, Adam, averaging, checkpoints). So an algorithm's
file holds its equations and nothing more. See docs/adding_an_algorithm.md.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Protocol,
    TypeVar,
    dataclass_transform,
    get_args,
    runtime_checkable,
)

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.batch import Batch
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values
from lobsdice.errors import LobsDICEError
from lobsdice.rewards.scores import Layout, Scores

if TYPE_CHECKING:
    from lobsdice.training.train import Run

Metrics = dict[str, Float[Array, "..."]]


@runtime_checkable
class Algorithm(Protocol):
    """The contract between an algorithm and the training loop.

    Float hyperparameters may be traced, because the runs of a fleet may differ in them. All others
    are static.
    """

    goes_on: ClassVar[bool]
    """True if it needs to see what follows the end of an episode."""
    looks_ahead: ClassVar[bool]
    """True if it learns from triples (s, s', s'')."""
    published: ClassVar[dict[str, Any]]
    """The hyperparameters of the paper, where the defaults are others."""

    @property
    def penalty_every(self) -> int:
        """Steps in a block: penalties are computed in its first step and count for all."""
        ...

    @property
    def needs_labels(self) -> bool:
        """True if it learns from demonstrations with actions."""
        ...

    @property
    def refresh_every(self) -> int:
        """Steps between two calls of `refresh`, and two draws of the rows to clone."""
        ...

    @property
    def draws(self) -> bool:
        """True if the rows to clone are drawn by their weights."""
        ...

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Any:
        """Fresh networks: a NamedTuple with a field `policy`."""
        ...

    def loss(
        self, nets: Any, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        """The sum of all losses and penalties, and metrics to log. Each moves only its own network.

        Each penalty counts `penalised` times; with 0 it is not computed. The names of the metrics
        must not depend on that.
        """
        ...

    def rates(self, step: Int[Array, ""]) -> Any:
        """The learning rate of each network in this step, in a NamedTuple like that of `init`."""
        ...

    def after_step(self, nets: Any) -> Any:
        """The networks after a gradient step: the place to move target networks."""
        ...

    def refresh(self, nets: Any, held_out: Batch, key: Key[Array, ""]) -> Any:
        """The networks after a look at held-out rows: the place to calibrate them."""
        ...

    def cloning_weights(self, nets: Any, rows: Transitions, *notes: Any) -> Values:
        """The log weights by which the rows to clone are drawn, up to a constant.

        An algorithm that has notes is given those of the rows too.
        """
        ...

    @property
    def stretch(self) -> int:
        """Recorded steps in a row over which `cloning_weights` are averaged."""
        ...

    def sharpened(self, log_w: Values) -> Values:
        """The log weights by which rows are drawn, from averages of `cloning_weights`."""
        ...

    @property
    def scored_by(self) -> Any:
        """The scores of logged steps that must be known before training; None if there are none.

        It is one of the classes in `rewards.kinds`, or a `Ratio`.
        """
        ...

    @property
    def after_an_end(self) -> str | None:
        """The reading of ends in words; None if the option `terminal` says it."""
        ...

    def notes(self, scores: Scores, layout: Layout) -> Any:
        """Facts that losses need of each logged step: arrays with one entry a step.

        Entries for the ends of the logged episodes may follow.
        """
        ...

    def diagnose(self, nets: Any, batch: Batch, key: Key[Array, ""]) -> Metrics:
        """Measures of the networks on held-out rows, besides the losses there."""
        ...


class Defaults:
    """`fit`, and the choices of simple algorithms.

    These are: no penalties, labels, ends, targets, draws, scores or measures.
    """

    penalty_every: int = 1
    refresh_every: int = 0
    stretch: int = 1
    goes_on: ClassVar[bool] = False
    looks_ahead: ClassVar[bool] = False
    published: ClassVar[dict[str, Any]] = {}

    def fit(self, demonstrations: Any, logs: Any, **options: Any) -> "Run":
        """Train on recordings, and return the run: `fit` of the package, for this algorithm."""
        # Training lies above this room. So its function is taken where users take it.
        import lobsdice

        algorithm: Any = self
        return lobsdice.fit(algorithm, demonstrations, logs, **options)

    @property
    def needs_labels(self) -> bool:
        return False

    def after_step(self, nets: Any) -> Any:
        return nets

    @property
    def draws(self) -> bool:
        return False

    def refresh(self, nets: Any, held_out: Batch, key: Key[Array, ""]) -> Any:
        return nets

    def cloning_weights(self, nets: Any, rows: Transitions, *notes: Any) -> Values:
        raise NotImplementedError("an algorithm that draws rows has this method")

    def sharpened(self, log_w: Values) -> Values:
        return log_w

    @property
    def scored_by(self) -> Any:
        return None

    @property
    def after_an_end(self) -> str | None:
        return None

    def notes(self, scores: Scores, layout: Layout) -> Any:
        raise NotImplementedError("an algorithm that needs scores has this method")

    def diagnose(self, nets: Any, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return {}


def add_penalties(
    losses: Metrics, penalties: Mapping[str, Callable[[], Float[Array, ""]]], penalised: int
) -> tuple[Float[Array, ""], Metrics]:
    """The sum of losses and penalties, each penalty counted `penalised` times, and the metrics."""
    found = {name: term() if penalised else jnp.zeros(()) for name, term in penalties.items()}
    total: Any = sum(losses.values()) + penalised * sum(found.values())
    return total, losses | found


# ---- Hyperparameters ----


def at_least(bound: int, *, default: Any) -> Any:
    """A hyperparameter that must not be smaller than `bound`."""
    return field(default=default, metadata={"bounds": (bound, None)})


def above(bound: int, *, default: Any) -> Any:
    """A hyperparameter that must be larger than `bound`, such as one that is divided by."""
    return field(default=default, metadata={"above": bound})


def within(low: int, high: int, *, default: Any) -> Any:
    """A hyperparameter from `low` to `high`, both allowed."""
    return field(default=default, metadata={"bounds": (low, high)})


def one_of(choices: Any, *, default: str) -> Any:
    """A hyperparameter that is one of the words of a `Literal`."""
    return field(default=default, metadata={"choices": get_args(choices)})


def _check_kind(self: Any, name: str, kind: Any) -> None:
    """Raise unless the value is a number, and a whole one where needed; 1e5 counts as whole."""
    value = getattr(self, name)
    if kind not in (int, float) or isinstance(value, jax.Array):
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise LobsDICEError(f"`{name}` is {value!r}; it must be a number")
    if kind is int and not isinstance(value, int | np.integer):
        if not math.isfinite(value) or value != int(value):
            raise LobsDICEError(f"`{name}` is {value}; it must be a whole number")
        object.__setattr__(self, name, int(value))


Class = TypeVar("Class", bound=type)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(field, at_least, above, within, one_of),
)
def hyperparameters(cls: Class) -> Class:
    """Make a frozen dataclass whose float fields are leaves to JAX and whose others are static.

    The bounds of `at_least`, `above` and `within`, and the words of `one_of`, are checked when an
    object is made.
    """
    cls.__post_init__ = _check
    cls = dataclass(frozen=True, kw_only=True)(cls)
    leaves = [f.name for f in fields(cls) if f.type in (float, "float")]
    static = [f.name for f in fields(cls) if f.name not in leaves]

    def flatten(self):
        return [getattr(self, n) for n in leaves], tuple(getattr(self, n) for n in static)

    def unflatten(values, numbers):
        # Not by __init__, which takes floats: these may be traced, or have an axis of runs.
        self = object.__new__(cls)
        for name, value in [*zip(leaves, numbers, strict=True), *zip(static, values, strict=True)]:
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls


def _check(self: Any) -> None:
    for f in fields(self):
        _check_kind(self, f.name, f.type)
        low, high = f.metadata.get("bounds", (None, None))
        value = getattr(self, f.name)
        choices = f.metadata.get("choices", (value,))
        if value not in choices:
            words = ", ".join(map(str, choices))
            raise LobsDICEError(f"`{f.name}` is {value!r}; it must be one of: {words}")
        # Written so that NaN is refused, too.
        if low is not None and high is not None and not low <= value <= high:
            raise LobsDICEError(f"`{f.name}` is {value}; it must be between {low} and {high}")
        if low is not None and not low <= value < math.inf:
            raise LobsDICEError(f"`{f.name}` is {value}; it must be at least {low}, and finite")
        least = f.metadata.get("above")
        if least is not None and not least < value < math.inf:
            raise LobsDICEError(
                f"`{f.name}` is {value}; it must be larger than {least}, and finite"
            )
