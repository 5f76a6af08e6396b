"""A batch of rows, and the inputs that networks see of it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from lobsdice.data.prepare import Observations, Transitions
from lobsdice.equations.ratio import Rows

#: Sets the random numbers of `blurred` apart from those of an algorithm.
BLUR = 2**16


class Following(NamedTuple):
    """The state after the next state of each row: the third of a triple (s, s', s'')."""

    s: Float[Any, "n state"]
    """s''. Where nothing follows, or nobody knows what, it is s'."""
    goes_on: Bool[Any, " n"]
    """False where the episode has terminated and nothing follows."""
    known: Bool[Any, " n"]
    """False where the recording stops at s'."""


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
    notes: Any = None
    """The notes of `Algorithm.notes` on the rows of `offline`; None if the algorithm has none."""
    after_expert: Following | None = None
    """The states that follow the rows of `expert`; None unless the algorithm looks ahead."""
    after_offline: Following | None = None
    """The states that follow the rows of `offline`."""
    blur: Float[Any, " state"] | None = None
    """The noise with which discriminators see each feature, see `data.context`; None if none."""


def beside(x: Float[Array, "n first"], y: Float[Array, "n second"]) -> Rows:
    """Two arrays side by side, such as states and actions."""
    return jnp.concatenate([x, y], axis=-1)


def blurred(batch: Batch, key: Key[Array, ""], strength: float | Float[Array, ""]) -> Batch:
    """The demonstrations and the logs of a batch as discriminators see them.

    Features that never change in an episode are blurred, by the same noise in s and in s'.
    """
    if batch.blur is None:
        return batch
    noise = strength * batch.blur

    def part(rows: Any, key: Key[Array, ""]) -> Any:
        shift = noise[None] * jax.random.normal(key, rows.s.shape)
        return rows._replace(s=rows.s + shift, s_next=rows.s_next + shift)

    # Other random numbers than those of the algorithm, which do not depend on this.
    k_expert, k_offline, k_labelled = jax.random.split(jax.random.fold_in(key, BLUR), 3)
    return batch._replace(
        expert=part(batch.expert, k_expert),
        offline=part(batch.offline, k_offline),
        labelled=batch.labelled and part(batch.labelled, k_labelled),
    )


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
