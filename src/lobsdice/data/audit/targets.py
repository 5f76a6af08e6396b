"""Actions that are states: those of the same row, or those to reach next."""

from typing import Literal, NamedTuple

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import Box

#: An action equals a feature if it differs by less than this share of the feature's deviation.
NEAR = 0.01
#: In at least so many of the steps.
MOST = 0.9
#: The most steps that are compared; of more, evenly spaced ones.
COMPARED = 20_000


class Target(NamedTuple):
    """A column of actions that equals a feature of the state."""

    action: str
    feature: str
    when: Literal["this", "next"]
    share: float

    @property
    def remark(self) -> str:
        """A sentence on what it means."""
        equal = f"{self.share:.0%} of the steps"
        if self.when == "this":
            return (
                f"action {self.action} equals feature {self.feature} of the same state in {equal}; "
                "a policy learns to copy its input, which moves nothing: record the command, not "
                "the position that was measured"
            )
        return (
            f"action {self.action} equals feature {self.feature} of the next state in {equal}, as "
            "teleoperation records it; the policy then says where to be next, so that only a "
            "controller that goes there can run it"
        )


def targets(offline: Episodes) -> list[Target]:
    """The columns of actions that are states, at most one feature for each."""
    if not isinstance(offline.action_space, Box) or offline.actions is None:
        return []
    steps = np.arange(min(offline.steps, COMPARED)) * offline.steps // min(offline.steps, COMPARED)
    actions = offline.actions[steps]
    rows = steps + offline.episode_of(steps)
    now, then = offline.observations[rows], offline.observations[rows + 1]
    names = offline.observation_names or tuple(map(str, range(offline.state_size)))
    called = offline.action_space.names or tuple(map(str, range(actions.shape[1])))
    found = (_target(actions[:, j], now, then, names, called[j]) for j in range(actions.shape[1]))
    return [target for target in found if target]


def _target(
    action: np.ndarray, now: np.ndarray, then: np.ndarray, names: tuple[str, ...], called: str
) -> Target | None:
    """The feature that an action equals most often, if it does so often enough."""
    deviation = now.std(axis=0)
    best = None
    compared: dict[Literal["this", "next"], np.ndarray] = {"next": then, "this": now}
    for when, states in compared.items():
        share = (np.abs(states - action[:, None]) <= NEAR * deviation).mean(axis=0)
        share[deviation == 0] = 0
        i = int(share.argmax())
        # Where little moves, both are near; the exact one has the larger share.
        if share[i] >= MOST and (best is None or share[i] > best.share):
            best = Target(called, names[i], when, float(share[i]))
    return best
