"""The largest entries of each row, ties settled by id."""

from __future__ import annotations

from torch import Tensor


def at_least(values_QV: Tensor, smallest_Q: Tensor, count_Q: Tensor) -> Tensor:
    """[Q, V] bool: the ``count`` largest values of each row; of equal ones, those of lowest id.

    Args:
        values_QV: [Q, V].
        smallest_Q: [Q] the ``count``-th largest value of each row.
        count_Q: [Q] int64: how many are wanted, from 1 to V.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.largest import at_least
        >>> at_least(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), torch.tensor([1.0]), torch.tensor([3])).tolist()
        [[True, True, True, False]]
    """
    chosen_QV = values_QV >= smallest_Q[:, None]
    # Ties at the edge are rare and counting along the vocabulary is slow: only rows that have some are counted.
    rows = (chosen_QV.sum(-1) > count_Q).nonzero().squeeze(1)
    if rows.numel() > 0:
        tied = values_QV[rows] == smallest_Q[rows, None]
        above = chosen_QV[rows] & ~tied
        room = count_Q[rows] - above.sum(-1)
        chosen_QV[rows] = above | (tied & (tied.cumsum(-1) <= room[:, None]))
    return chosen_QV
