"""A second opinion: how well can held-out demonstrations be told from held-out offline data?

Logistic regression on the pairs (s, s') and on random Fourier features of them, fitted five times,
each time without a fifth of the episodes, which it then scores: no episode is scored by a fit that
has seen any of it. Both classes weigh the same, however many transitions they have.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64
from scipy.special import expit

FOLDS = 5
FEATURES = 128
#: Most transitions of each class that one fit sees.
MOST = 4000
#: Standardised states farther out are taken to lie here, so that no outlier rules the fit.
BOUND = 5.0
RIDGE = 1e-4
#: Number of intervals of probability in which claims are held against frequencies.
BINS = 10

Pairs = Float32[np.ndarray, "_ width"]


@dataclass(frozen=True)
class Discrimination:
    """How well demonstrated and offline pairs can be told apart."""

    auc: float
    """The chance that a demonstrated pair scores higher than an offline pair; 1/2 if they are of
    one kind, 1 if they can be told apart without error."""
    lookalikes: float
    """Offline pairs that score at least as high as the median demonstrated pair, for each
    demonstrated pair that does."""
    overlap: float
    """∫ min(d^E, d^I), by the calibrated probabilities: 1 if the two are equal, 0 if disjoint."""
    calibration_error: float
    """The mean gap between calibrated probabilities and frequencies."""


def discriminate(
    expert: Float32[np.ndarray, "e width"],
    expert_group: Int64[np.ndarray, " e"],
    offline: Float32[np.ndarray, "o width"],
    offline_group: Int64[np.ndarray, " o"],
    seed: int = 0,
) -> Discrimination:
    """Held-out scores of all pairs, summed up."""
    random = np.random.default_rng(seed)
    features = _Features.make(expert, offline, random)
    folds = [_folds(group, random) for group in (expert_group, offline_group)]
    scores = [np.empty(len(rows)) for rows in (expert, offline)]
    for fold in range(FOLDS):
        seen = [_some(np.flatnonzero(of != fold), random) for of in folds]
        weights = fit(features(expert[seen[0]]), features(offline[seen[1]]))
        for score, rows, of in zip(scores, (expert, offline), folds, strict=True):
            score[of == fold] = features.scores(rows[of == fold], weights)
    return _summary(*scores)


def exact_auc(high: Float[np.ndarray, " m"], low: Float[np.ndarray, " n"]) -> float:
    """The share of pairs (h, l) with h > l, ties counting half."""
    ordered = np.sort(low)
    below, not_above = (np.searchsorted(ordered, high, side) for side in ("left", "right"))
    return float((below + not_above).mean() / (2 * len(low)))


def fit(
    positive: Float[np.ndarray, "m features"], negative: Float[np.ndarray, "n features"]
) -> Float64[np.ndarray, " features"]:
    """Ridge logistic regression with both classes weighing 1/2, by Newton's method."""
    x = np.concatenate([positive, negative])
    label = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    mass = np.repeat([0.5 / len(positive), 0.5 / len(negative)], [len(positive), len(negative)])
    weights = np.zeros(x.shape[1])
    for _ in range(15):
        p = expit(x @ weights)
        gradient = x.T @ (mass * (p - label)) + RIDGE * weights
        curvature = (x * (mass * p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        # Nearly separable classes make early steps overshoot.
        weights -= step / max(1.0, np.abs(step).max() / 3)
        if np.abs(step).max() < 1e-3:
            break
    return weights


@dataclass(frozen=True, eq=False)
class _Features:
    """1, the standardised pair, and cosines of random directions of it."""

    mean: np.ndarray
    scale: np.ndarray
    directions: np.ndarray
    phases: np.ndarray

    @classmethod
    def make(cls, expert: Pairs, offline: Pairs, random: np.random.Generator) -> "_Features":
        some = [rows[_some(np.arange(len(rows)), random)] for rows in (expert, offline)]
        means = [rows.mean(axis=0, dtype=np.float64) for rows in some]
        squares = [rows.var(axis=0, dtype=np.float64) for rows in some]
        # Of both classes together, each weighing half.
        mean = np.mean(means, axis=0)
        scale = np.sqrt(np.mean(squares, axis=0) + np.var(means, axis=0)) + 1e-3
        width = expert.shape[1]
        directions = random.normal(size=(width, FEATURES)) / np.sqrt(2 * width)
        phases = random.uniform(0, 2 * np.pi, FEATURES)
        arrays = (mean, scale, directions, phases)
        return cls(*(array.astype(np.float32) for array in arrays))

    def __call__(self, rows: Pairs) -> Float32[np.ndarray, "n features"]:
        x = np.clip((rows - self.mean) / self.scale, -BOUND, BOUND)
        return np.concatenate(
            [np.ones_like(x[:, :1]), x, np.cos(x @ self.directions + self.phases)], axis=1
        )

    def scores(self, rows: Pairs, weights: Float64[np.ndarray, " features"]) -> np.ndarray:
        blocks = np.array_split(rows, -(-len(rows) // MOST)) if len(rows) else []
        return np.concatenate([*(self(block) @ weights for block in blocks), np.empty(0)])


def _folds(group: Int64[np.ndarray, " n"], random: np.random.Generator) -> np.ndarray:
    _, number = np.unique(group, return_inverse=True)
    return (random.permutation(number.max() + 1) % FOLDS)[number]


def _some(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= MOST else np.sort(random.choice(rows, MOST, replace=False))


def _summary(expert: np.ndarray, offline: np.ndarray) -> Discrimination:
    likely = np.median(expert)
    alike = (offline >= likely).sum() / (expert >= likely).sum()
    p = _calibrated(expert, offline)
    overlap = np.mean([np.minimum(q, 1 - q).mean() for q in p]) * 2
    return Discrimination(
        exact_auc(expert, offline), float(alike), float(overlap), calibration_error(*p)
    )


def _calibrated(expert: np.ndarray, offline: np.ndarray) -> list[np.ndarray]:
    """Platt's probabilities: a line through the held-out scores, fitted to the held-out labels."""
    rows = [np.stack([np.ones_like(score), score], axis=1) for score in (expert, offline)]
    line = fit(*rows)
    return [expit(x @ line) for x in rows]


def calibration_error(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean gap between claimed probability and frequency, both classes weighing the same."""
    edges = np.linspace(0, 1, BINS + 1)
    mass = [np.histogram(p, edges)[0] / len(p) / 2 for p in (positive, negative)]
    claimed = sum(np.histogram(p, edges, weights=p)[0] / len(p) / 2 for p in (positive, negative))
    return float(np.abs(mass[0] - claimed).sum())
