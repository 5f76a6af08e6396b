"""The check that an exported policy acts like the policy it was made from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy

#: The largest difference allowed: of actions, as a share of their range; of the scores of discrete
#: actions and of the components of a mixture, as a share of the largest score.
AGREEMENT = 1e-5

#: Beyond this many standard deviations from the mean the allowed difference grows in proportion:
#: float32 loses digits there, and one wild row must not stop an export.
FAR = 5

#: Number of observations in a check; of more, evenly spaced ones are taken.
ENOUGH = 10_000

#: Seed of the noise in the check of stochastic actions.
SEED = 0

Rows = Float32[np.ndarray, "n width"]
PerRow = Float[np.ndarray, " n"]

#: An exported policy: a function of rows and a seed (None: the likeliest action) to actions.
ExportedPolicy = Callable[[Rows, int | None], np.ndarray]


def likely_observations(policy: Policy, count: int = 1000, *, seed: int = 0) -> Rows:
    """Random observations with the mean and the deviation of the data that the policy saw."""
    mean, scale = policy.normaliser.mean, policy.normaliser.scale
    draws = np.random.default_rng(seed).standard_normal((count, len(mean)), np.float32)
    return mean + scale * draws


def some_of(policy: Policy, observations: Any) -> Rows:
    """At most `ENOUGH` rows of an array, or of episodes, for a check.

    It raises if the policy does not take their width.
    """
    width = len(policy.normaliser.mean)
    try:
        rows = np.asarray(getattr(observations, "observations", observations), np.float32)
    except (TypeError, ValueError) as error:
        raise LobsDICEError(
            f"the observations for the check are a value of type {type(observations).__name__}; "
            f"give episodes, or an array with rows of {width} numbers"
        ) from error
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows):
        raise LobsDICEError(
            f"the policy takes observations of {width} numbers, but those for the check "
            f"have the shape {rows.shape}"
        )
    return np.ascontiguousarray(rows[:: -(-len(rows) // ENOUGH)])


def draw_noise(policy: Policy, seed: int, count: int) -> Rows:
    """The noise that the policy draws for `count` observations."""
    space, random = policy.action_space, np.random.default_rng(seed)
    if isinstance(space, Box):
        normal = random.standard_normal((count, space.size), np.float32)
        if policy.components == 1:
            return normal
        gumbel = random.gumbel(size=(count, policy.components)).astype(np.float32)
        return np.concatenate([normal, gumbel], axis=1)
    return random.gumbel(size=(count, space.n)).astype(np.float32)


def require_agreement(
    path: Path, policy: Policy, observations: Rows, act: ExportedPolicy, *, stochastic: bool
) -> float:
    """Return the largest difference; raise if it exceeds `AGREEMENT`."""
    seed = SEED if stochastic else None
    batches = (observations, observations[:1])
    found = float(np.max([difference(policy, x, act(x, seed), seed) for x in batches]))
    if not found <= AGREEMENT:  # so that NaN is refused, too
        raise LobsDICEError(
            f"{path} was not written: its actions differ from the policy's by {found:.2g} of "
            f"their range, and {AGREEMENT:.0e} is allowed"
        )
    return found


def difference(policy: Policy, observations: Rows, actions: np.ndarray, seed: int | None) -> float:
    """The largest difference of actions from the policy's; infinite if type or shape differs."""
    random = None if seed is None else np.random.default_rng(seed)
    if isinstance(policy.action_space, Discrete):
        errors = _in_score(policy.action_space, policy.scores(observations, random), actions)
    elif policy.components > 1:
        errors = _in_options(policy.action_space, *policy.options(observations, random), actions)
    else:
        errors = _in_range(policy.action_space, policy.act(observations, random), actions)
    if errors is None:
        return np.inf
    deviations = np.abs(policy.normaliser(observations)).max(axis=1)
    return float((errors / np.maximum(1, deviations / FAR)).max())


def _in_range(space: Box, expected, actions: np.ndarray) -> PerRow | None:
    if actions.shape != expected.shape or actions.dtype != expected.dtype:
        return None
    low, high = np.asarray(space.low), np.asarray(space.high)
    errors = np.abs(actions.astype(np.float64) - expected)
    # Between 1e6 and 1e6 + 1 there are 16 numbers: two neighbours are as good as equal.
    errors -= 2 * np.spacing(np.maximum(np.abs(low), np.abs(high)).astype(np.float32))
    return np.maximum(errors / (high - low), 0).max(axis=1)


def _in_options(
    space: Box, scores: np.ndarray, options: np.ndarray, actions: np.ndarray
) -> PerRow | None:
    """The distance from the action of a component, or its loss in score, if that is larger.

    The component is the one for which that is smallest. So an action may be that of any component
    whose score equals the highest one but for rounding, and must be that of one of them.
    """
    errors = []
    for i in range(scores.shape[-1]):
        apart = _in_range(space, options[:, i], actions)
        if apart is None:
            return None
        errors.append(np.maximum(apart, _lost(scores, scores[:, i])))
    return np.min(errors, axis=0)


def _in_score(space: Discrete, scores: np.ndarray, actions: np.ndarray) -> PerRow | None:
    """The loss in score against the policy's own actions; small if rounding broke a tie."""
    if actions.shape != scores.shape[:-1] or actions.dtype != np.int64:
        return None
    actions = actions.astype(np.int64)  # ONNX Runtime's are C's `long long`, another type
    if len(space.outside(actions)):
        return None
    chosen = np.take_along_axis(scores, actions[:, None], axis=1)[:, 0]
    return _lost(scores, chosen)


def _lost(scores: np.ndarray, chosen: np.ndarray) -> PerRow:
    """The loss of scores against the highest ones, as a share of the largest."""
    return (scores.max(axis=1) - chosen) / np.maximum(np.abs(scores).max(axis=1), 1)
