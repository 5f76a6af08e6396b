"""A description of episodes in numbers and texts that JSON can hold."""

from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from lobsdice.data.ends import count_ends
from lobsdice.data.episodes import Episodes
from lobsdice.data.rows import chunks, column_range
from lobsdice.data.spaces import Box


def describe(episodes: Episodes) -> dict[str, Any]:
    """The counts, lengths, ends, ranges of features, actions, returns and sources of episodes."""
    returns = episodes.returns()
    return {
        "episodes": len(episodes),
        "steps": episodes.steps,
        "lengths": _summary(episodes.lengths),
        **count_ends(episodes),
        "state_size": episodes.state_size,
        "observation_names": list(episodes.observation_names) or None,
        "observations": _features(episodes.observations, episodes.observation_range),
        "actions": _actions(episodes),
        "returns": None if returns is None else _summary(returns),
        "sources": _sources(episodes),
    }


def _summary(values: np.ndarray) -> dict[str, int | float]:
    return {name: getattr(values, name)().item() for name in ("min", "mean", "max", "std")}


def _features(
    rows: Float32[np.ndarray, "n width"], between: tuple[np.ndarray, np.ndarray]
) -> dict[str, list[float]]:
    """The minimum, mean, maximum and standard deviation of each column."""
    low, high = between
    mean, std = _moments(rows)
    stats = {"min": low, "mean": mean, "max": high, "std": std}
    return {name: values.tolist() for name, values in stats.items()}


def _moments(rows: Float32[np.ndarray, "n width"]) -> tuple[Float[np.ndarray, " width"], ...]:
    mean, squares = np.zeros((2, rows.shape[1]))
    for _, chunk in chunks(rows):
        mean += chunk.sum(axis=0, dtype=np.float64) / len(rows)
    for _, chunk in chunks(rows):
        squares += ((chunk - mean) ** 2).sum(axis=0) / len(rows)
    return mean, np.sqrt(squares)


def _actions(episodes: Episodes) -> dict[str, Any] | None:
    actions, space = episodes.actions, episodes.action_space
    if actions is None or space is None:
        return None
    if isinstance(space, Box):
        features = _features(actions, column_range(actions))
        return {**space.description, "size": space.size, **features}
    values, counts = np.unique(actions, return_counts=True)
    called = [space.names[i] if space.names else str(i) for i in values]
    taken = {name: int(count) for name, count in zip(called, counts, strict=True)}
    return {**space.description, "taken": taken}


def _sources(episodes: Episodes) -> dict[str, int] | None:
    if episodes.source is None:
        return None
    counts = np.bincount(episodes.source, minlength=len(episodes.source_names))
    return dict(zip(episodes.source_names, counts.tolist(), strict=True))
