"""Unit factors: columns of a file that are multiplied by a number when they are read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats.options import IfThere, ReadOptions
from lobsdice.data.formats.wildcards import matches
from lobsdice.data.spaces import ActionSpace, Box


def scaled_actions(
    raw: np.ndarray, stored: ActionSpace | None, names: tuple[str, ...], options: ReadOptions
) -> tuple[np.ndarray, ActionSpace | None, tuple[str, ...]]:
    """The actions, their space and their names, in the units that `scale` gives them.

    Discrete actions have no units.
    """
    factors = _factors(names, options)
    if (factors == 1).all() or (isinstance(stored, Box) is False and stored is not None):
        return raw, stored, names
    raw = raw.reshape(len(raw), -1) * factors
    if isinstance(stored, Box):
        low, high = np.sort([factors * stored.low, factors * stored.high], axis=0)
        stored = replace(stored, low=tuple(low.tolist()), high=tuple(high.tolist()))
    return raw, stored, _renamed(names, factors)


def scaled_observations(episodes: Episodes, options: ReadOptions) -> Episodes:
    """The episodes with their observations in the units that `scale` gives them."""
    names = episodes.observation_names
    factors = _factors(names, options)
    if (factors == 1).all():
        return episodes
    return replace(
        episodes,
        observations=episodes.observations * factors.astype(np.float32),
        observation_names=_renamed(names, factors),
    )


def unused_factors(episodes: Episodes, options: ReadOptions) -> list[str]:
    """A warning about names in `scale` that are none of the columns that were read."""
    if isinstance(options.scale, IfThere):  # the other file has them, or it warns itself
        return []
    space = episodes.action_space
    names = [*episodes.observation_names, *(space.names if isinstance(space, Box) else ())]
    unscaled = [name.partition("*")[0] for name in names]
    missing = [name for name, _ in options.factors if not _matches(unscaled, name)]
    return [f"`scale` names {name!r}, which is no column that was read" for name in missing[:1]]


def _factors(names: Sequence[str], options: ReadOptions) -> np.ndarray:
    factors = np.ones(len(names))
    for pattern, factor in options.factors:
        factors[[matches(name, pattern) for name in names]] = factor
    return factors


def _matches(names: Sequence[str], pattern: str) -> bool:
    return any(matches(name, pattern) for name in names)


def _renamed(names: Sequence[str], factors: np.ndarray) -> tuple[str, ...]:
    """Names that tell the factor: whoever runs the policy must multiply by it, too."""
    pairs = zip(names, factors.tolist(), strict=True)
    return tuple(name if factor == 1 else f"{name}*{factor:g}" for name, factor in pairs)
