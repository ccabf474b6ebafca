"""Only the most diverse rows of each group train (PODS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.types import RolloutTable


class MaxVariance(Selector):
    """Keeps, of every group, the ``keep`` rows whose rewards have the largest variance, before advantages are computed.

    Such a subset is made of the ``k`` lowest and the ``keep - k`` highest rewards of the group, for some ``k``; all ``k``
    are tried. Where several have that variance (within rounding) the smallest ``k`` is taken, that of the most high
    rewards; of rows with equal rewards those with the smaller member index. Rows left out are in no statistic and do not
    train: advantages compare the kept rows with each other. Groups with no more than ``keep`` valid rows keep all of them.
    Nothing is drawn again.

    Source: Xu et al. (PODS), arXiv 2504.13818, max-variance down-sampling.

    Args:
        keep: Rows kept of each group, at least 2. Only a larger ``group_size`` leaves something to choose.

    Example:
        >>> from grpo_lightning.selectors.max_variance import MaxVariance
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([0.2, 0.9, 0.5, 0.0], groups=[0, 0, 0, 0])
        >>> MaxVariance(keep=2).subset(table).tolist()
        [False, True, False, True]
    """

    name = "max_variance"
    example: ClassVar[Mapping[str, Any]] = {"keep": 2}

    def __init__(self, *, keep: int) -> None:
        require_range("keep", keep, low=2)
        require(isinstance(keep, int), "keep", keep, "is no whole number", "set a whole number")
        self.keep = keep

    @override
    def largest_group(self, group_size: int) -> int:
        require(self.keep < group_size, "keep", self.keep, f"keeps every row of groups of {group_size}",
                "lower it, raise model.group_size, or take selector all")  # fmt: skip
        return self.keep

    @override
    def subset(self, table: RolloutTable) -> Tensor:
        kept_R = table.valid_R.clone()
        for group in torch.unique(table.group_R[table.valid_R]).tolist():
            rows = ((table.group_R == group) & table.valid_R).nonzero().squeeze(1)
            if rows.shape[0] > self.keep:
                rows = rows[table.member_R[rows].argsort(stable=True)]
                kept_R[rows] = most_diverse(table.rewards_R[rows].to(torch.float64), self.keep)
        return kept_R

    @override
    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(self.subset(table), torch.zeros(0, dtype=torch.int64))


def most_diverse(values_R: Tensor, keep: int) -> Tensor:
    """[R] bool: the ``keep`` of the values that have the largest variance, ties as :class:`MaxVariance` says.

    Args:
        values_R: [R] float64, more than ``keep``.
        keep: How many to choose.
    """
    values, order = values_R.sort(stable=True)
    lows = torch.arange(keep + 1)[:, None]
    slots = torch.arange(keep)
    chosen = torch.where(slots < lows, slots, slots + values.shape[0] - keep)
    variances = (values[chosen] - values[0]).var(dim=1, unbiased=False)
    best = chosen[(variances >= variances.max() * (1 - 1e-9)).nonzero()[0, 0]]
    # Equal values stand in order of member; as many as were chosen of them are taken from the front.
    _, run, sizes = torch.unique_consecutive(values, return_inverse=True, return_counts=True)
    taken = torch.zeros_like(sizes).index_add_(0, run[best], torch.ones_like(best))
    rank = torch.arange(values.shape[0]) - (sizes.cumsum(0) - sizes)[run]
    kept_R = torch.zeros_like(values, dtype=torch.bool)
    kept_R[order] = rank < taken[run]
    return kept_R
