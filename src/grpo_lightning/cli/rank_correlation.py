"""How far two lists of numbers agree on an order."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def ranks(values_R: Tensor) -> Tensor:
    """[R] float64: rank of each value from 1, equal values sharing the mean of their ranks.

    Example:
        >>> ranks(torch.tensor([3.0, 1.0, 3.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    _, index_R, sizes = torch.unique(values_R, return_inverse=True, return_counts=True)
    rank: Tensor = sizes.cumsum(0).to(torch.float64) - (sizes - 1) / 2
    return rank[index_R]


def spearman(first_R: Tensor, second_R: Tensor) -> float | None:
    """The correlation of ranks: ``sum (a - mean a)(b - mean b) / sqrt(sum (a - mean a)^2 sum (b - mean b)^2)``.

    Returns:
        A number between -1 and 1; ``None`` where one list is constant.

    Source: Spearman, American Journal of Psychology 15 (1904).

    Example:
        >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]))
        0.5
    """
    centered = [ranks(values_R) - (len(values_R) + 1) / 2 for values_R in (first_R, second_R)]
    size = math.sqrt(float(centered[0].square().sum()) * float(centered[1].square().sum()))
    return float((centered[0] * centered[1]).sum()) / size if size > 0 else None


def kendall(first_R: Tensor, second_R: Tensor) -> float | None:
    """tau-b: ``(C - D) / sqrt((P - T_a)(P - T_b))`` over the P pairs of rows.

    C pairs are in one order in both lists and D in opposite orders; T_a and T_b pairs are equal in the first and in the
    second list. Time grows with the square of the number of rows.

    Returns:
        A number between -1 and 1; ``None`` where one list is constant.

    Source: Kendall, Biometrika 33 (1945).

    Example:
        >>> round(kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])), 6)
        0.333333
    """
    agreement, untied = 0.0, [0.0, 0.0]
    for row in range(1, len(first_R)):
        signs = [torch.sign(values_R[row] - values_R[:row]) for values_R in (first_R, second_R)]
        agreement += float((signs[0] * signs[1]).sum())
        untied = [count + float(sign.abs().sum()) for count, sign in zip(untied, signs, strict=True)]
    size = math.sqrt(untied[0] * untied[1])
    return agreement / size if size > 0 else None
