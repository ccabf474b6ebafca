"""Sums along the steps of a row, in a logarithmic number of passes over all rows at once."""

from __future__ import annotations

import torch
from torch import Tensor


def returns_to_go(rewards_S: Tensor, row_S: Tensor, decay: float | Tensor = 1.0) -> Tensor:
    """[S]: return of each step, ``R_s = r_s + decay_s R_{s+1}`` inside its row, ``R_s = r_s`` at the row's last step.

    A step's return depends on what follows in its own row only, and bitwise so: rows that end alike have equal returns
    there, wherever in the tensor they lie, and NaN in one row does not reach another.

    Args:
        rewards_S: [S] what each step earned.
        row_S: [S] row of each step; a row's steps follow each other.
        decay: Between a step and the next: one number, or [S]; what it is at a row's last step does not matter.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.returns import returns_to_go
        >>> returns_to_go(torch.tensor([0.0, 1.0, 4.0]), torch.tensor([0, 0, 1]), 0.5).tolist()
        [0.5, 1.0, 4.0]
    """
    returns_S = rewards_S.clone()
    decay_S = torch.as_tensor(decay, dtype=rewards_S.dtype).expand_as(rewards_S)
    longest = _longest(row_S)
    reach = 1
    while reach < longest:
        # Both hold the window of `reach` steps from each step on: its return, and what the window decays by.
        same = row_S[reach:] == row_S[:-reach]
        returns_S[:-reach] += torch.where(same, decay_S[:-reach] * returns_S[reach:], 0.0)
        further = torch.where(same, decay_S[:-reach] * decay_S[reach:], 0.0)
        decay_S = torch.cat([further, decay_S.new_zeros(reach)])
        reach *= 2
    return returns_S


def running_sums(values_S: Tensor, row_S: Tensor) -> Tensor:
    """[S]: sum of the values of a row from its first step up to and with each step.

    Args:
        values_S: [S] values.
        row_S: [S] row of each step; a row's steps follow each other.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.returns import running_sums
        >>> running_sums(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 0, 1])).tolist()
        [1.0, 3.0, 4.0]
    """
    return returns_to_go(values_S.flip(0), row_S.flip(0)).flip(0)


def _longest(row_S: Tensor) -> int:
    if row_S.numel() == 0:
        return 0
    _, counts = torch.unique_consecutive(row_S, return_counts=True)
    return int(counts.max())
