"""The shared part of methods that clone by what the rest of the recorded episode holds.

Each step has a likeness u to the demonstrations. The discounted mean of the likenesses from a step
to the end of its episode says how good it was to take that step,

    G_t = (1-γ) u_t + γ G_{t+1},

and the policy clones the logs with weights that grow with G. There is no critic: G is known before
training. After the last step of an episode its value repeats for ever; if the episode terminated,
that of the final state.
"""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Metrics, at_least, hyperparameters, within
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.cloning import cloning_loss
from lobsdice.algorithms.scored import Scored
from lobsdice.data.prepare import Transitions
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.duals import Values, normalised
from lobsdice.equations.rewards import TRANSPORT_DECAY, log_discounted_means, log_nearness
from lobsdice.rewards.scores import Layout, Scores

#: The least likeness of recorded rewards, which are scaled to [0, 1].
LEAST = 1e-6


class Nets(NamedTuple):
    policy: Any


@hyperparameters
class EpisodeSums(Scored):
    """The hyperparameters of TAILO and of nearest-trajectory cloning."""

    gamma: float = within(0, 1, default=0.98)
    """Discount along the episode."""
    policy_rate: float = at_least(0, default=3e-4)
    """Learning rate of the policy."""
    redraw: bool = True
    """Clone rows that are drawn by the weights of many rows. Otherwise clone all rows of a batch
    with their weights in it, as published: few of them count then."""
    refresh_every: int = at_least(1, default=128)
    """Steps between two draws of the rows to clone."""

    def weigh(self, log_mean: Values) -> Values:
        """The log weights of steps, from log G."""
        raise NotImplementedError

    @property
    def after_an_end(self) -> str | None:
        return "after an end its state repeats for ever"

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        return Nets(self.make_policy(key, state_size, space))

    @property
    def draws(self) -> bool:
        return self.redraw

    shown_as: ClassVar[str] = "weight"

    def shown(self, scores: Scores, layout: Layout) -> Values:
        return normalised(self.notes(scores, layout))

    def notes(self, scores: Scores, layout: Layout) -> Values:
        steps, ends = (jnp.asarray(x) for x in (scores.steps, scores.beyond))
        log_u = self._log_likeness(jnp.concatenate([steps, ends]), scores.unit)
        log_step, log_end = jnp.split(log_u, 2)
        means = log_discounted_means(log_step, log_end, jnp.asarray(layout.last), self.gamma)
        return self.weigh(means)

    def _log_likeness(self, score: Values, unit: float) -> Values:
        match self.reward:
            case "nearest":
                return self.sharpness * log_nearness(score, unit)
            case "transport":
                return -self.sharpness * TRANSPORT_DECAY * score
            case "recorded":
                least, span = jnp.min(score), jnp.maximum(jnp.ptp(score), LEAST)
                return jnp.log(jnp.maximum((score - least) / span, LEAST))
        return self.sharpness * (score - jnp.max(score))

    def cloning_weights(self, nets: Nets, rows: Transitions, *notes: Values) -> Values:
        return notes[0]

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        loss = cloning_loss(nets.policy, batch, normalised(batch.notes))
        return loss, {"policy_loss": loss}

    def diagnose(self, nets: Nets, batch: Batch, key: Key[Array, ""]) -> Metrics:
        w = normalised(batch.notes)
        return {"effective_share": jnp.mean(w) ** 2 / jnp.mean(w**2)}

    def rates(self, step: Int[Array, ""]) -> Nets:
        return Nets(self.policy_rate)
