"""Measures of a binary classifier, for NumPy and JAX arrays alike; this module imports neither."""

from typing import Any

from jaxtyping import Float


def auc(positive: Float[Any, " n"], negative: Float[Any, " m"]) -> Any:
    """The share of pairs in which the positive row scores above the negative; ties count half."""
    xp = positive.__array_namespace__()
    ordered = xp.sort(negative)
    below, not_above = (xp.searchsorted(ordered, positive, side) for side in ("left", "right"))
    return xp.mean(below + not_above) / (2 * len(negative))


def calibration_error(
    positive: Float[Any, " n"],
    negative: Float[Any, " m"],
    *,
    balanced: bool = False,
    bins: int = 10,
) -> Any:
    """The mean gap between the probability of "positive" and the share of positive rows.

    `positive` and `negative` are the probabilities that the classifier gives to the rows of each
    class. The gap is taken in each of `bins` equal intervals of probability (Naeini et al., 2015).
    All rows weigh the same; with `balanced`, both classes do.
    """
    xp = positive.__array_namespace__()
    probability = xp.concatenate([positive, negative])
    is_positive = xp.arange(len(probability)) < len(positive)
    excess = probability - is_positive
    if balanced:
        half = len(probability) / 2
        excess = excess * xp.where(is_positive, half / len(positive), half / len(negative))
    interval = xp.minimum(xp.astype(bins * probability, xp.int32), bins - 1)
    in_interval = xp.astype(interval[:, None] == xp.arange(bins)[None], probability.dtype)
    return xp.sum(xp.abs(excess @ in_interval)) / len(probability)
