"""What there is to say about data, as plain dictionaries: the JSON output, and what tables show."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lobsdice.data import Data, Observations, shared_pairs
from lobsdice.episodes import Episodes
from lobsdice.spaces import ActionSpace, Box

Report = dict[str, Any]


def of_episodes(episodes: Episodes) -> Report:
    """Counts, lengths, returns, and the range of every number of the observations and actions."""
    returns = episodes.returns()
    return {
        "episodes": len(episodes),
        "steps": episodes.steps,
        "terminated": int(episodes.terminated.sum()),
        "truncated": int((~episodes.terminated).sum()),
        "lengths": _statistics(episodes.lengths),
        "returns": None if returns is None else _statistics(returns),
        "sources": _sources(episodes.source, episodes.source_names),
        "action_space": of_space(episodes.action_space),
        "observations": _columns(episodes.observations),
        "actions": None if episodes.actions is None else _columns(episodes.actions),
    }


def of_data(data: Data) -> Report:
    """What a learner sees; the pairs in both sets are the leak, if there is one."""
    offline = Observations(data.offline.s, data.offline.s_next)
    return {
        "expert_pairs": len(data.expert.s),
        "offline_transitions": len(data.offline.s),
        "initial_states": len(data.init),
        "state_size": data.state_size,
        "action_space": of_space(data.action_space),
        "sources": _sources(data.source, data.source_names),
        "expert_pairs_in_offline": int(shared_pairs(data.expert, offline).sum()),
    }


def of_space(space: ActionSpace | None) -> Report | None:
    if space is None:
        return None
    if isinstance(space, Box):
        return {"kind": "continuous", "low": list(space.low), "high": list(space.high)}
    return {"kind": "discrete", "count": space.n}


def _sources(labels: np.ndarray | None, names: tuple[str, ...]) -> Report | None:
    if labels is None:
        return None
    counts = np.bincount(labels, minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


def _columns(values: np.ndarray) -> list[Report]:
    return [_statistics(column) for column in values.reshape(len(values), -1).T]


def _statistics(values: np.ndarray) -> Report:
    return {
        "minimum": values.min().item(),
        "mean": float(values.mean(dtype=np.float64)),
        "deviation": float(values.std(dtype=np.float64)),
        "maximum": values.max().item(),
    }


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """The texts of the warnings of the block, which are shown as well."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    for warning in caught:
        texts.append(str(warning.message))
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
