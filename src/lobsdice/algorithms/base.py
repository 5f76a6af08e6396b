"""What an algorithm is: a frozen dataclass of hyperparameters that can start and score networks.

The training loop owns everything else (batches, Adam, averaging, checkpoints), so an algorithm's
file holds its equations and nothing more. See docs/adding_an_algorithm.md.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, TypeVar, dataclass_transform, runtime_checkable

import jax
from jaxtyping import Array, Float, Int, Key

from lobsdice.data.spaces import ActionSpace

Metrics = dict[str, Float[Array, "..."]]


class Labelled(NamedTuple):
    """Transitions with their actions."""

    s: Float[Array, "n state"]
    a: Float[Array, "n action"] | Int[Array, " n"]
    s_next: Float[Array, "n state"]


class Batch(NamedTuple):
    """Rows drawn independently and uniformly from each part of the data."""

    init: Float[Array, "n0 state"]
    expert_s: Float[Array, "n state"]
    expert_s_next: Float[Array, "n state"]
    s: Float[Array, "n state"]
    a: Float[Array, "n action"] | Int[Array, " n"]
    s_next: Float[Array, "n state"]
    labelled: Labelled | None = None
    """Demonstrations whose actions are known, if the data has some."""


@runtime_checkable
class Algorithm(Protocol):
    """The contract between an algorithm and the training loop.

    Float hyperparameters may be traced (a fleet differs in them); all others are static.
    """

    @property
    def penalty_every(self) -> int:
        """In how many steps penalties are taken once, for all of them."""
        ...

    @property
    def needs_labels(self) -> bool:
        """Whether it learns from demonstrations with actions, too."""
        ...

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Any:
        """Fresh networks: a NamedTuple, one of whose fields is `policy`."""
        ...

    def loss(
        self, nets: Any, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        """The sum of all losses, each of which moves only its own network, and what to log.

        Penalties count `penalised` times: for so many steps, or not at all in those that are left
        out. The names of the metrics must not depend on it.
        """
        ...

    def rates(self, step: Int[Array, ""]) -> Any:
        """The learning rate of each network in this step, in a NamedTuple like that of `init`."""
        ...

    def after_step(self, nets: Any) -> Any:
        """The networks after a gradient step, for target networks to follow."""
        ...

    def diagnose(self, nets: Any, batch: Batch, key: Key[Array, ""]) -> Metrics:
        """What rows that were held out tell of the networks, besides the losses there."""
        ...


class Defaults:
    """What most algorithms answer to the loop: no labels needed, no target networks, no more."""

    @property
    def needs_labels(self) -> bool:
        return False

    def after_step(self, nets: Any) -> Any:
        return nets

    def diagnose(self, nets: Any, batch: Batch, key: Key[Array, ""]) -> Metrics:
        return {}


Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def hyperparameters(cls: Class) -> Class:
    """A frozen dataclass whose float fields are leaves to JAX and whose other fields are static."""
    cls = dataclass(frozen=True, kw_only=True)(cls)
    leaves = [f.name for f in fields(cls) if f.type in (float, "float")]
    static = [f.name for f in fields(cls) if f.name not in leaves]

    def flatten(self):
        return [getattr(self, n) for n in leaves], tuple(getattr(self, n) for n in static)

    def unflatten(values, numbers):
        # Not by __init__, which promises floats: these may be traced, or have an axis of runs.
        self = object.__new__(cls)
        for name, value in [*zip(leaves, numbers, strict=True), *zip(static, values, strict=True)]:
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls
