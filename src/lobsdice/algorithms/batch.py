"""A batch of rows, and the inputs that networks see of it."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lobsdice.data.prepare import Observations, Transitions
from lobsdice.equations.ratio import Rows


class Batch(NamedTuple):
    """A small `Data`: rows drawn independently from each of its parts.

    Rows that follow an end have no action; see `networks`.
    """

    init: Float[Any, "n0 state"]
    expert: Observations
    offline: Transitions
    labelled: Transitions | None = None
    """Demonstrations whose actions are known, if the data has some."""
    expert_ended: Bool[Any, " n"] | None = None
    """True for the rows of `expert` that follow an end; None if there are none."""
    cloned: Transitions | None = None
    """Offline rows drawn by their weights, for the policy; None if none were drawn."""


def beside(x: Float[Array, "n first"], y: Float[Array, "n second"]) -> Rows:
    """Two arrays side by side, such as states and actions."""
    return jnp.concatenate([x, y], axis=-1)


def pairs(rows: Observations | Transitions) -> Rows:
    """State pairs: each state beside the next one."""
    return beside(rows.s, rows.s_next)


def state_actions(policy: Any, rows: Transitions) -> Rows:
    """States beside their actions, in the form in which networks see actions."""
    return beside(rows.s, policy.features(rows.a))


def at(net: Any, *parts: Float[Array, "_ features"]) -> list[Float[Array, " _"]]:
    """The network's values at several sets of rows, in one pass: wide products are cheaper."""
    ends = np.cumsum([len(part) for part in parts])
    return jnp.split(net(jnp.concatenate(parts)), ends[:-1].tolist())


def share(rows: Rows, parts: int) -> Float[Array, "m features"]:
    """The first 1/`parts` of the rows, which is a smaller sample: rows are drawn at random."""
    return rows[: -(-len(rows) // parts)]
