"""Every group trains."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.types import RolloutTable


class AllGroups(Selector):
    """Keeps every valid row; nothing is drawn again.

    Groups without signal stay in every normaliser, so the size of a step falls with the share of groups that have none.

    Example:
        >>> from grpo_lightning.selectors.all_groups import AllGroups
        >>> AllGroups().name
        'all'
    """

    name = "all"

    @override
    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R.clone(), torch.zeros(0, dtype=torch.int64))
