"""The shared part of learners that are told beforehand how much each logged step is worth.

The scores of steps are found once, before training (`rewards`). Rewards follow from them by the
equations of the method. So runs of a fleet share the scores and may differ in hyperparameters.
"""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lobsdice.algorithms.acting import Acting
from lobsdice.algorithms.base import at_least, hyperparameters, one_of
from lobsdice.equations.duals import Values
from lobsdice.equations.rewards import nearest_reward, transport_reward
from lobsdice.rewards.kinds import Nearest, Ratio, Recorded, Reward, Transport
from lobsdice.rewards.scores import Layout, Scores


class Worth(NamedTuple):
    """The known facts about each logged step."""

    reward: Values
    beyond: Values
    """The reward at the final state that a step leads to, time after time."""
    ended: Bool[Array, " n"]
    """True if a step leads to a final state."""
    last: Bool[Array, " n"]
    """True for the last step of each episode."""


@hyperparameters
class Scored(Acting):
    """The choice of a reward."""

    shown_as: ClassVar[str] = "reward"

    reward: Reward = one_of(Reward, default="recorded")
    """The source of rewards: the files or your own function (recorded), the nearest demonstrated
    pair (nearest), optimal transport (transport), or a discriminator of pairs (ratio), of states
    (state-ratio), or of states in two stages as in TAILO (unlabelled)."""
    sharpness: float = at_least(0, default=1.0)
    """Factor on the exponent of rewards, beside the published constants; on log ratios, on these.
    Recorded rewards have none."""
    raw_units: bool = False
    """Compare states in the units of the files. Otherwise they are normalised."""
    ratio_steps: int = at_least(1, default=50_000)
    """Gradient steps of the discriminator, before the policy's own; for rewards from one."""
    calibrate: bool = False
    """Correct log ratios by the line that fits them best on held-out rows. Nothing is corrected if
    the demonstrations are too few to hold rows out."""

    @property
    def scored_by(self) -> Any:
        match self.reward:
            case "recorded":
                return Recorded()
            case "nearest":
                return Nearest(self.raw_units)
            case "transport":
                return Transport(self.raw_units)
        pairs, unlabelled = self.reward == "ratio", self.reward == "unlabelled"
        return Ratio(pairs, unlabelled, self.ratio_steps, self.width, self.calibrate)

    def shown(self, scores: Scores, layout: Layout) -> Values:
        """The numbers of all steps that a report shows; `shown_as` is their name."""
        return self.worth(scores, layout).reward

    def worth(self, scores: Scores, layout: Layout) -> Worth:
        """The rewards of all steps."""
        return Worth(
            reward=self._rewards(jnp.asarray(scores.steps), layout),
            beyond=self._rewards(jnp.asarray(scores.beyond), layout),
            ended=jnp.asarray(layout.ended),
            last=jnp.asarray(layout.last),
        )

    def _rewards(self, score: Values, layout: Layout) -> Float[Array, " n"]:
        match self.reward:
            case "recorded":
                return score
            case "nearest":
                return nearest_reward(score, layout.action_size, self.sharpness)
            case "transport":
                return transport_reward(score, self.sharpness)
        return self.sharpness * score
