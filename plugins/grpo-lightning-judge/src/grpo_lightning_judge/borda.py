"""Borda's points of rankings."""

from __future__ import annotations

from collections.abc import Sequence


def borda(rankings: Sequence[Sequence[int]], size: int) -> list[float]:
    """Mean over rankings of ``(size - 1 - place) / (size - 1)``: 1 for who is always first, 0 for who is always last.

    Args:
        rankings: Each has every index below ``size`` once, best first.
        size: Ranked items.

    Returns:
        One number in [0, 1] an item; 0.5 where there is only one item.

    Example:
        >>> borda([[2, 0, 1], [0, 2, 1]], 3)
        [0.75, 0.0, 0.75]
    """
    if size == 1:
        return [0.5]
    points = [0.0] * size
    for ranking in rankings:
        for place, item in enumerate(ranking):
            points[item] += (size - 1 - place) / (size - 1)
    return [point / len(rankings) for point in points]
