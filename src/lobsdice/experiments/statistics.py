"""Aggregates over tasks and seeds with bootstrap intervals, and paired tests over tasks.

Aggregates follow Agarwal et al. (2021). Their library, rliable, would bring pandas, seaborn and
arch along for two functions. `benchmarks/rliable_agreement.py` compares both with it.

The interquartile mean over all runs of all tasks is robust to single bad seeds and uses more data
than a median. Intervals are percentiles of bootstrap samples. There are two kinds. `interval`
resamples the seeds within each task, so it speaks of these tasks alone. `over_tasks` resamples the
tasks as well, so it speaks of tasks like these, and is wider.

A column of scores is a task. If some tasks have fewer runs than others, the array is masked below
their last run. Each task has the same weight, however many runs it has.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from scipy.stats import trim_mean, wilcoxon

Scores = Float[np.ndarray, "runs tasks"]
#: Scores of one sample, or of many at once.
Samples = Float[np.ndarray, "*samples runs tasks"]
Statistic = Callable[[Samples], Any]
Differences = Float[np.ndarray, " pairs"]

SAMPLES, CONFIDENCE = 2000, 0.95
#: Up to this many choices of signs, `sign_flip` tries all; of more it draws this many.
FLIPS = 2**14
#: Sums of the same numbers in another order may differ by this share.
ROUNDING = 1e-12


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float


def mean(scores: Samples) -> Any:
    """The mean over all tasks of the means over their runs, of each sample."""
    return np.asarray(scores.mean(axis=-2).mean(axis=-1))


def interquartile_mean(scores: Samples) -> Any:
    """The mean of the middle half of all runs of all tasks of each sample."""
    runs = scores.reshape(*scores.shape[:-2], -1)
    # All samples have their runs in the same places.
    present = ~np.ma.getmaskarray(runs).reshape(-1, runs.shape[-1])[0]
    return trim_mean(np.asarray(runs)[..., present], 0.25, axis=-1)


def interval(
    scores: Scores,
    statistic: Statistic,
    *,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """A statistic and its stratified percentile bootstrap interval: every task keeps its weight."""
    random = np.random.default_rng(seed)
    tasks = np.arange(scores.shape[1])
    return _percentiles(statistic, scores, _draw(random, scores, tasks, samples), confidence)


def over_tasks(
    scores: Scores, *, samples: int = SAMPLES, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """The mean and its bootstrap interval: tasks are drawn, then seeds in each of them."""
    random = np.random.default_rng(seed)
    tasks = scores.shape[1]
    which = random.integers(0, tasks, size=(samples, 1, tasks))
    return _percentiles(mean, scores, _draw(random, scores, which, samples), confidence)


def signed_rank(differences: Differences) -> float:
    """The p-value of Wilcoxon's test that paired differences are symmetric about zero."""
    if not differences.any():
        return 1.0
    result: Any = wilcoxon(differences, zero_method="zsplit")
    return float(result.pvalue)


def sign_flip(differences: Differences, *, seed: int = 0) -> float:
    """The p-value of the permutation test that each paired difference has either sign alike.

    The statistic is the mean. The p-value is exact for up to 14 pairs.
    """
    pairs = len(differences)
    every = 2**pairs <= FLIPS
    # All choices of signs are the binary digits of the numbers 0, 1, ...
    numbers = np.arange(min(2**pairs, FLIPS))[:, None] >> np.arange(pairs) & 1
    drawn = numbers if every else np.random.default_rng(seed).integers(0, 2, numbers.shape)
    means = np.abs((1 - 2 * drawn) @ differences)
    as_large = means >= np.abs(differences.sum()) * (1 - ROUNDING)
    # Among random signs, the observed ones count as well (Phipson and Smyth, 2010).
    return float(as_large.mean() if every else (as_large.sum() + 1) / (FLIPS + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, adjusted for their number by Holm's method (1979)."""
    adjusted, least = [1.0] * len(p_values), 0.0
    for place, i in enumerate(np.argsort(p_values).tolist()):
        least = max(least, (len(p_values) - place) * p_values[i])
        adjusted[i] = min(least, 1.0)
    return adjusted


def _draw(
    random: np.random.Generator, scores: Scores, which: Int64[np.ndarray, "..."], samples: int
) -> Samples:
    """Draw samples of the runs of these tasks, as many as each task has."""
    size = samples, *scores.shape
    if not np.ma.is_masked(scores):
        return scores[random.integers(0, len(scores), size), which]
    counts = np.ma.count(scores, axis=0)[which]
    drawn = np.asarray(scores)[random.integers(0, np.broadcast_to(counts, size)), which]
    missing = np.arange(len(scores))[:, None] >= counts
    return np.ma.masked_array(drawn, np.broadcast_to(missing, size))


def _percentiles(
    statistic: Statistic, scores: Scores, samples: Samples, confidence: float
) -> Interval:
    low, high = np.quantile(statistic(samples), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(statistic(scores)), float(low), float(high))
