"""The description of a dataset, with remarks on odd values in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from lobsdice.data.description import describe
from lobsdice.data.episodes import Episodes
from lobsdice.data.fills import LOGS, SHOWN, Fill, usual_width
from lobsdice.data.normaliser import scale_remarks
from lobsdice.data.notices import notices

#: The largest distance from a feature's mean, in standard deviations, without a remark.
OUTLIER = 30.0

Facts = dict[str, Any]
Numbers = Float[np.ndarray, " width"]


def facts(expert: Episodes, offline: Episodes, fills: Sequence[Fill]) -> tuple[Facts, Facts]:
    """The descriptions of demonstrations and logs, with remarks in words."""
    shown, logged = describe(expert), describe(offline)
    far = [
        *_far(expert, shown["observations"], fills),
        *_far_from_logs(expert, offline, logged["observations"], fills),
    ]
    return (
        _with_remarks(expert, shown, [*far, *_remarks(fills, SHOWN)]),
        _with_remarks(
            offline,
            logged,
            [*_far(offline, logged["observations"], fills), *_remarks(fills, LOGS)],
        ),
    )


def _with_remarks(episodes: Episodes, description: Facts, remarks: Sequence[str]) -> Facts:
    """The description with the number of repeated episodes and all remarks."""
    scales = scale_remarks(episodes, np.array(description["observations"]["std"]))
    return {
        **description,
        "repeated_episodes": len(episodes.repeated),
        "remarks": [*notices(episodes), *scales, *dict.fromkeys(remarks)],
    }


def _remarks(fills: Sequence[Fill], where: str) -> list[str]:
    return [fill.remark for fill in fills if fill.where == where]


def _far(episodes: Episodes, features: dict[str, list[float]], fills: Sequence[Fill]) -> list[str]:
    """A remark on each feature with values far from its mean, if they are no fill values."""
    low, mean, high, std = (np.array(features[key]) for key in ("min", "mean", "max", "std"))
    far = np.maximum(high - mean, mean - low)
    return _sentences(episodes, far, std, fills, "standard deviations from its mean")


def _far_from_logs(
    expert: Episodes, offline: Episodes, logged: dict[str, list[float]], fills: Sequence[Fill]
) -> list[str]:
    """The same with the scale of the logs, because odd demonstrations widen their own."""
    mean, std = np.array(logged["mean"]), np.array(logged["std"])
    low, high = expert.observation_range
    # Of a feature that is mostly constant in the logs, they do not tell the scale.
    std = np.where(usual_width(offline) > 0, std, 0)
    far = np.maximum(high - mean, mean - low)
    return _sentences(expert, far, std, fills, "standard deviations of the logs from their mean")


def _sentences(
    episodes: Episodes, far: Numbers, std: Numbers, fills: Sequence[Fill], what: str
) -> list[str]:
    names = episodes.observation_names or tuple(map(str, range(episodes.state_size)))
    known = {fill.feature for fill in fills}
    wild = np.flatnonzero((std > 0) & (far > OUTLIER * std))
    return [
        f"feature {names[i]} has values {far[i] / std[i]:.0f} {what}"
        for i in wild
        if names[i] not in known
    ]
