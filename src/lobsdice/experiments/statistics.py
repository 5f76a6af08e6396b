"""Aggregates over tasks and seeds with bootstrap intervals, after Agarwal et al. (2021).

Their library, rliable, would bring pandas, seaborn and arch along for these two functions.

The interquartile mean over all runs of all tasks is robust to single bad seeds and uses more data
than a median. Intervals are percentiles of bootstrap samples. These resample the seeds within each
task, so that every task keeps its weight. `benchmarks/rliable_agreement.py` compares both with the
authors' library.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import trim_mean

Scores = Float[np.ndarray, "runs tasks"]


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float


def mean(scores: Scores) -> float:
    """The mean over all runs and tasks."""
    return float(np.mean(scores))


def interquartile_mean(scores: Scores) -> float:
    """The mean of the middle half of all runs of all tasks."""
    return float(trim_mean(scores.ravel(), 0.25))


def interval(
    scores: Scores,
    statistic: Callable[[Scores], float],
    *,
    samples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """A statistic and its stratified percentile bootstrap interval."""
    random = np.random.default_rng(seed)
    runs, tasks = scores.shape
    rows = random.integers(0, runs, size=(samples, runs, tasks))
    values = [statistic(scores[index, np.arange(tasks)]) for index in rows]
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(statistic(scores), float(low), float(high))
