"""Normalisation of observations by the mean and the standard deviation of the offline data."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from lobsdice.data.episodes import Episodes

#: Added to each standard deviation, so that no constant feature is divided by zero.
SCALE_OFFSET = 1e-3

#: The largest gap between neighbouring float32 numbers without a remark, in standard deviations.
RESOLUTION = 1e-4


class Normaliser(NamedTuple):
    """A function from observations in the user's units to the states that networks see."""

    mean: Float32[np.ndarray, " width"]
    scale: Float32[np.ndarray, " width"]
    names: tuple[str, ...] = ()
    """The names of the columns of an observation, if they are known."""

    def __call__(
        self, observations: Float[np.ndarray, "*n width"]
    ) -> Float32[np.ndarray, "*n width"]:
        return ((observations - self.mean) / self.scale).astype(np.float32, copy=False)


def fit_normaliser(offline: Episodes) -> Normaliser:
    """The normaliser with the mean and the standard deviation + 1e-3 of the offline states.

    Final states do not count, because no action is taken there. What the file says is believed.
    """
    if (facts := offline.facts) is not None:
        return _normaliser(facts.mean, facts.deviation, offline)
    states = offline.observations[offline.step_rows]
    mean = states.mean(axis=0, dtype=np.float64)
    deviation = states.std(axis=0, dtype=np.float64, mean=mean[None])
    return _normaliser(mean, deviation, offline)


def _normaliser(mean: np.ndarray, deviation: np.ndarray, offline: Episodes) -> Normaliser:
    scale = deviation + SCALE_OFFSET
    return Normaliser(mean.astype(np.float32), scale.astype(np.float32), offline.observation_names)


def scale_remarks(episodes: Episodes, deviation: Float[np.ndarray, " width"]) -> list[str]:
    """A sentence for each feature whose scale hides most of it from a network."""
    names = episodes.observation_names or range(episodes.state_size)
    low, high = episodes.observation_range
    tiny = (deviation > 0) & (deviation < SCALE_OFFSET)
    size = np.maximum(np.abs(low), np.abs(high))
    coarse = (deviation >= SCALE_OFFSET) & (np.spacing(size) > RESOLUTION * deviation)
    return [
        *(
            f"feature {names[i]} is nearly constant after normalisation, because its standard "
            f"deviation is only {deviation[i]:.2g}; scale it up"
            for i in np.flatnonzero(tiny)
        ),
        *(
            f"feature {names[i]} loses precision: its standard deviation is {deviation[i]:.2g}, "
            f"but float32 numbers near {size[i]:.2g} are {np.spacing(size[i]):.2g} apart; subtract "
            "a constant from it"
            for i in np.flatnonzero(coarse)
        ),
    ]
