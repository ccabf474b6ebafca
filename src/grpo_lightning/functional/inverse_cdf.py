"""Drawing from a categorical distribution with one uniform number."""

from __future__ import annotations

from torch import Tensor


def inverse_cdf(probabilities_QV: Tensor, uniform_Q: Tensor) -> Tensor:
    """[Q] int64: smallest id whose cumulative probability, in order of ids, exceeds ``uniform * total``.

    An id of probability 0 is never drawn.

    Args:
        probabilities_QV: [Q, V] float64, non-negative, not all zero; need not add up to 1.
        uniform_Q: [Q] float64 in (0, 1).
    """
    cumulative_QV = probabilities_QV.cumsum(dim=-1)
    threshold_Q1 = (uniform_Q.to(cumulative_QV) * cumulative_QV[:, -1])[:, None]
    ids_Q = (cumulative_QV <= threshold_Q1).sum(dim=-1)
    # Rounding can put the threshold on the total itself: then the last id of positive probability is meant.
    reversed_positive = (probabilities_QV > 0).flip(-1).int()
    last_Q = probabilities_QV.shape[-1] - 1 - reversed_positive.argmax(dim=-1)
    return ids_Q.minimum(last_Q)
