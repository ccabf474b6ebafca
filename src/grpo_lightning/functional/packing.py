"""Dealing rows of different lengths into micro-batches of a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Sequence


def worst_case_bins(items: int, largest: int, capacity: int) -> int:
    """An upper bound on the bins that :func:`pack` needs for ``items`` items of at most ``largest`` tokens.

    While an item is left over, an open bin of :func:`pack` holds at least ``capacity // largest`` items.
    """
    return max(1, -(-items // max(1, capacity // max(1, largest))))


_WIDEST = 1.34
"""How much longer than the shortest the longest of a run may be: a quarter of its room may lie idle."""


def similar_lengths(lengths: Sequence[int], *, slack: int = 0) -> list[slice]:
    """Runs of falling ``lengths`` in which the longest is at most a third, or ``slack``, longer than the shortest.

    Example:
        >>> from grpo_lightning.functional.packing import similar_lengths
        >>> similar_lengths([40, 31, 29, 9, 4])
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
    starts: list[int] = []
    for index, length in enumerate(lengths):
        if not starts or lengths[starts[-1]] > max(_WIDEST * length, length + slack):
            starts.append(index)
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], len(lengths)], strict=False)]


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


def pack_sharing(
    prompts: Sequence[int], prompt_sizes: Sequence[int], sizes: Sequence[int], capacity: int, most: int | None = None
) -> list[list[int]]:
    """Indices of rows in bins of at most ``capacity`` tokens, where a bin holds the prompt of its rows once.

    The rows of a prompt stay together where they fit a bin, or are cut into bins of their own where they do not. If that
    makes more than ``most`` bins, bins are filled row by row, and a prompt may be in two of them: such a bin, when it is
    closed, holds at least as many rows as one in which every row brings its prompt along, so :func:`worst_case_bins` of
    whole rows bounds them.

    Args:
        prompts: Index of each row's prompt.
        prompt_sizes: Tokens of each prompt.
        sizes: Tokens of each row, without its prompt.
        capacity: Tokens of a bin; a row that is above it with its prompt is alone.
        most: Bins that there should be at most.

    Example:
        >>> from grpo_lightning.functional.packing import pack_sharing
        >>> pack_sharing([0, 0, 1, 1], [10, 10], [3, 2, 3, 4], capacity=17)
        [[3, 2], [0, 1]]
        >>> pack_sharing([0, 0, 0], [10], [3, 2, 4], capacity=16)
        [[0, 1], [2]]
    """
    follow: dict[int, list[int]] = {}
    for row in sorted(range(len(sizes)), key=lambda row: (-sizes[row], row)):
        follow.setdefault(prompts[row], []).append(row)
    pieces = [piece for rows in follow.values() for piece in _fill(rows, prompts, prompt_sizes, sizes, capacity)]
    costs = [_cost(piece, prompts, prompt_sizes, sizes) for piece in pieces]
    bins = [[row for piece in part for row in pieces[piece]] for part in pack(costs, capacity)]
    if most is not None and len(bins) > most:
        order = sorted(follow, key=lambda prompt: (-_cost(follow[prompt], prompts, prompt_sizes, sizes), prompt))
        bins = _fill([row for prompt in order for row in follow[prompt]], prompts, prompt_sizes, sizes, capacity)
    return bins


def _cost(rows: Sequence[int], prompts: Sequence[int], prompt_sizes: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(sizes[row] for row in rows) + sum(prompt_sizes[prompt] for prompt in {prompts[row] for row in rows})


def _fill(
    rows: Sequence[int], prompts: Sequence[int], prompt_sizes: Sequence[int], sizes: Sequence[int], capacity: int
) -> list[list[int]]:
    """One bin after the other, rows in order."""
    bins: list[list[int]] = []
    room, inside = -1, set[int]()
    for row in rows:
        needed = sizes[row] + (0 if prompts[row] in inside else prompt_sizes[prompts[row]])
        if not bins or needed > room:
            bins.append([])
            room, inside = capacity, set()
            needed = sizes[row] + prompt_sizes[prompts[row]]
        bins[-1].append(row)
        inside.add(prompts[row])
        room -= needed
    return bins
