"""Groups without signal do not train."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.functional.groups import Groups
from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.types import RolloutTable


class DropZeroSignal(Selector):
    """Keeps the valid rows of groups in which at least one valid row has a final advantage other than 0.

    What is dropped leaves every normaliser, so a step is averaged over the groups that have something to say. If no
    group has, nothing is kept.

    Example:
        >>> from grpo_lightning.selectors.drop_zero_signal import DropZeroSignal
        >>> DropZeroSignal().name
        'drop_zero_signal'
    """

    name = "drop_zero_signal"

    @override
    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R & signal(advantages_R, table), torch.zeros(0, dtype=torch.int64))


def signal(advantages_R: Tensor, table: RolloutTable) -> Tensor:
    """[R] bool: some valid row of the row's group has an advantage other than 0.

    Args:
        advantages_R: [R] final advantages.
        table: Scalars of the same rows.
    """
    groups = Groups.of(table.group_R)
    speaking_G = groups.sum(((advantages_R != 0) & table.valid_R).to(torch.int64)) > 0
    return speaking_G[groups.index_R]
