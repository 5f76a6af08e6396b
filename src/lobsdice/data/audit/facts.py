"""The description of a dataset, with remarks on odd values in it."""

from typing import Any

import numpy as np

from lobsdice.data.description import describe
from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import scale_remarks
from lobsdice.data.notices import notices

#: The largest distance from a feature's mean, in standard deviations, without a remark.
OUTLIER = 30.0


def facts(episodes: Episodes) -> dict[str, Any]:
    """The description of a dataset, its number of repeated episodes, and remarks in words."""
    description = describe(episodes)
    return {
        **description,
        "repeated_episodes": len(episodes.repeated),
        "remarks": [*notices(episodes), *_scales(episodes, description["observations"])],
    }


def _scales(episodes: Episodes, features: dict[str, list[float]]) -> list[str]:
    low, mean, high, std = (np.array(features[key]) for key in ("min", "mean", "max", "std"))
    far = np.maximum(high - mean, mean - low)
    wild = np.flatnonzero((std > 0) & (far > OUTLIER * std))
    names = episodes.observation_names or range(episodes.state_size)
    return [
        *scale_remarks(episodes, std),
        *(
            f"feature {names[i]} has values {far[i] / std[i]:.0f} standard deviations from its mean"
            for i in wild
        ),
    ]
