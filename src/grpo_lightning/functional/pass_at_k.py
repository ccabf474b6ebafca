"""Chance that ``k`` of the completions drawn for a prompt hold a correct one, or only correct ones."""

from __future__ import annotations

from math import comb

import torch
from torch import Tensor


def pass_at_k(samples_P: Tensor, correct_P: Tensor, k: int) -> Tensor:
    """``1 - C(n - c, k) / C(n, k)``: the chance that at least one of ``k`` completions is correct.

    The unbiased estimate from ``n >= k`` completions of which ``c`` are correct: the share of the k-subsets that hold a
    correct one. Binomials are exact integers, so the result is rounded once, whatever ``n``.

    Args:
        samples_P: [P] int64: completions ``n`` of each prompt.
        correct_P: [P] int64: correct ones ``c`` among them.
        k: Size of the subset, from 1 to the smallest ``n``.

    Returns:
        [P] float64: one estimate a prompt.

    Raises:
        ValueError: If ``k`` or a count is out of range.

    Source: Chen et al., arXiv 2107.03374, equation 1.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.pass_at_k import pass_at_k
        >>> pass_at_k(torch.tensor([4]), torch.tensor([2]), 2).item() == 5 / 6
        True
    """
    pairs = _pairs(samples_P, correct_P, k)
    shares = [(comb(n, k) - comb(n - c, k)) / comb(n, k) for n, c in pairs]
    return torch.tensor(shares, dtype=torch.float64)


def pass_hat_k(samples_P: Tensor, correct_P: Tensor, k: int) -> Tensor:
    """``C(c, k) / C(n, k)``: the chance that all of ``k`` completions are correct (pass^k).

    Args:
        samples_P: [P] int64: completions ``n`` of each prompt.
        correct_P: [P] int64: correct ones ``c`` among them.
        k: Size of the subset, from 1 to the smallest ``n``.

    Returns:
        [P] float64: one estimate a prompt, the share of the k-subsets that hold correct ones only.

    Raises:
        ValueError: If ``k`` or a count is out of range.

    Source: Yao et al., arXiv 2406.12045.
    """
    return torch.tensor([comb(c, k) / comb(n, k) for n, c in _pairs(samples_P, correct_P, k)], dtype=torch.float64)


def _pairs(samples_P: Tensor, correct_P: Tensor, k: int) -> list[tuple[int, int]]:
    pairs = list(zip(samples_P.tolist(), correct_P.tolist(), strict=True))
    for n, c in pairs:
        if not 1 <= k <= n:
            raise ValueError(f"k is {k}, but must lie between 1 and the number of completions, {n}")
        if not 0 <= c <= n:
            raise ValueError(f"{c} of {n} completions cannot be correct")
    return pairs
