"""Dealing rows of different lengths into micro-batches of a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Sequence


def worst_case_bins(items: int, largest: int, capacity: int) -> int:
    """An upper bound on the bins that :func:`pack` needs for ``items`` items of at most ``largest`` tokens.

    While an item is left over, an open bin of :func:`pack` holds at least ``capacity // largest`` items.
    """
    return max(1, -(-items // max(1, capacity // max(1, largest))))


def pack(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """Indices of ``sizes`` in bins of at most ``capacity`` tokens each; an item above it is alone in its bin.

    Items are taken from the largest to the smallest (ties by index) and fill one bin after the other, so a bin holds
    items of like size and padding stays small.

    Example:
        >>> from grpo_lightning.functional.packing import pack
        >>> pack([3, 9, 2, 3], capacity=6)
        [[1], [0, 3], [2]]
    """
    bins: list[list[int]] = []
    room = -1
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        if sizes[index] > room:
            bins.append([])
            room = capacity
        bins[-1].append(index)
        room -= sizes[index]
    return bins
