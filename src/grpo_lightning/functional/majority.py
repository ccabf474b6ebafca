"""How often the most frequent answer of ``k`` completions is right."""

from __future__ import annotations

from math import comb, exp, log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Counts = NDArray[np.float64]
"""[completions taken, answers tied at the top]: a weight for each such event."""


def majority_at_k(answers_R: Tensor, correct_R: Tensor, k: int) -> float:
    """Mean over all k-subsets of the correctness of the subset's most frequent answer.

    Answers that tie for the first place share it equally. The expectation is exact (no subset is ever sampled): the
    subsets that hold one answer ``m`` times, ``t`` others as often and none more often are counted by multiplying, over
    the other answers, polynomials whose exponents are the completions taken and the ties. The work is polynomial in the
    number of completions. An answer whose completions are judged differently is as right as the share of them that is
    correct.

    Args:
        answers_R: [R] int64: the answer of each completion of one prompt; equal numbers are equal answers.
        correct_R: [R] bool: whether the completion is correct.
        k: Size of the subset, from 1 to R.

    Returns:
        The expectation, between 0 and 1, over the ``C(R, k)`` subsets, each equally likely.

    Raises:
        ValueError: If ``k`` is out of range.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.majority import majority_at_k
        >>> answers, correct = torch.tensor([7, 7, 3]), torch.tensor([True, True, False])
        >>> round(majority_at_k(answers, correct, 3), 6), round(majority_at_k(answers, correct, 2), 6)
        (1.0, 0.666667)
    """
    n = answers_R.shape[0]
    if not 1 <= k <= n:
        raise ValueError(f"k is {k}, but must lie between 1 and the number of completions, {n}")
    _, index_R, sizes = torch.unique(answers_R, return_inverse=True, return_counts=True)
    right = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, index_R, correct_R.to(torch.float64)) / sizes
    if right.min() == right.max():
        return float(right[0])
    counts, wins = sizes.tolist(), {}
    total = 0.0
    for answer, (count, share) in enumerate(zip(counts, right.tolist(), strict=True)):
        if share > 0:
            if count not in wins:  # answers of one frequency win equally often
                wins[count] = _win_probability(count, counts[:answer] + counts[answer + 1 :], n, k)
            total += share * wins[count]
    return min(total, 1.0)


def _win_probability(count: int, others: list[int], n: int, k: int) -> float:
    """Chance that an answer of ``count`` completions is the most frequent of a k-subset, ties shared."""
    # Weights are binomial probabilities rather than binomials: they cannot overflow, and given that k completions are
    # taken in all, every subset is as likely as under drawing without replacement, whatever the rate.
    rate = k / (n + 1)
    total = 0.0
    for m in range(1, min(count, k) + 1):
        events = np.zeros((k - m + 1, (k - m) // m + 1))
        events[0, 0] = 1.0
        for other in others:
            events = _take(events, other, m, rate)
        total += _binomial(count, m, rate) * float((events[k - m] / np.arange(1, events.shape[1] + 1)).sum())
    return total / _binomial(n, k, rate)


def _take(events: Counts, count: int, m: int, rate: float) -> Counts:
    """``events`` after one more answer has been taken fewer than ``m`` times, or ``m`` times, which is a tie."""
    result = np.zeros_like(events)
    taken = events.shape[0]
    for j in range(min(m - 1, count, taken - 1) + 1):
        result[j:] += _binomial(count, j, rate) * events[: taken - j]
    if m <= count and m < taken:
        result[m:, 1:] += _binomial(count, m, rate) * events[: taken - m, :-1]
    return result


def _binomial(n: int, j: int, rate: float) -> float:
    """``C(n, j) rate^j (1 - rate)^(n - j)``."""
    return exp(log(comb(n, j)) + j * log(rate) + (n - j) * log(1 - rate))
