"""A discriminator that tells demonstrations from offline data: the audit's second opinion.

It is a logistic regression on pairs (s, s') and on random Fourier features of them, fitted by
Newton's method. Each of five fits leaves out a fifth of the episodes and scores their pairs. So no
fit scores an episode that it has seen. Both classes weigh the same, however many pairs they have.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64
from scipy.special import expit

from lobsdice.equations.classification import auc, calibration_error

FOLDS = 5
FEATURES = 128
#: The most pairs of each class that one fit sees.
MOST = 4000
#: Standardised states are clipped to ±BOUND, so that no outlier dominates the fit.
BOUND = 5.0
RIDGE = 1e-4

Pairs = Float32[np.ndarray, "_ width"]


@dataclass(frozen=True)
class Discrimination:
    """Measures of how well demonstrated and offline pairs can be told apart."""

    auc: float
    """The probability that a demonstrated pair scores higher than an offline pair: 1/2 if both come
    from one distribution, 1 if they can be told apart without error."""
    lookalikes: float
    """The number of offline pairs that score at least as high as the median demonstrated pair,
    divided by the number of demonstrated pairs that do."""
    overlap: float
    """∫ min(d^E, d^I), estimated by the calibrated probabilities: 1 if the two distributions are
    equal, 0 if they are disjoint."""
    calibration_error: float
    """The mean gap between calibrated probabilities and observed frequencies."""


def discriminate(
    expert: Float32[np.ndarray, "e width"],
    expert_group: Int64[np.ndarray, " e"],
    offline: Float32[np.ndarray, "o width"],
    offline_group: Int64[np.ndarray, " o"],
    seed: int = 0,
) -> Discrimination:
    """The measures of the held-out scores of all pairs; a group is an episode or a piece of one."""
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


def fit(
    positive: Float[np.ndarray, "m features"], negative: Float[np.ndarray, "n features"]
) -> Float64[np.ndarray, " features"]:
    """The weights of a ridge logistic regression, by Newton's method; each class weighs 1/2."""
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
    """The features of a pair: 1, the standardised pair, and cosines of random projections of it."""

    mean: np.ndarray
    scale: np.ndarray
    directions: np.ndarray
    phases: np.ndarray

    @classmethod
    def make(cls, expert: Pairs, offline: Pairs, random: np.random.Generator) -> "_Features":
        some = [rows[_some(np.arange(len(rows)), random)] for rows in (expert, offline)]
        means = [rows.mean(axis=0, dtype=np.float64) for rows in some]
        squares = [rows.var(axis=0, dtype=np.float64) for rows in some]
        # Mean and variance of the mixture in which each class weighs 1/2.
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
        float(auc(expert, offline)),
        float(alike),
        float(overlap),
        float(calibration_error(*p, balanced=True)),
    )


def _calibrated(expert: np.ndarray, offline: np.ndarray) -> list[np.ndarray]:
    """The probability of "demonstrated" for the pairs of each class, by Platt scaling of scores."""
    rows = [np.stack([np.ones_like(score), score], axis=1) for score in (expert, offline)]
    line = fit(*rows)
    return [expit(x @ line) for x in rows]
