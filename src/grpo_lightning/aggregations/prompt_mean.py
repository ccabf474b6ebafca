"""Every group weighs the same."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups


class PromptMean(Aggregation):
    """Mean over groups of the mean over all their steps, ``1/P sum_g 1/T_g sum_(i in g) sum_t term_it``.

    ``P`` counts the groups that have rows in the update, on all ranks, and ``T_g`` the trainable steps of group ``g``
    in it; rows of advantage 0 are counted. Two groups of one prompt are two groups.

    Example:
        >>> import torch
        >>> from grpo_lightning.aggregations.base import UpdateRows
        >>> from grpo_lightning.aggregations.prompt_mean import PromptMean
        >>> PromptMean().step_weights(UpdateRows(torch.tensor([1, 3]), torch.tensor([0, 0]))).tolist()
        [0.25, 0.25]
    """

    name = "prompt_mean"

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1 / (P T_g)`` of the row's group."""
        groups = Groups.of(rows.group_R)
        return 1.0 / (len(groups) * groups.sum(rows.lengths_R.to(torch.float64)))[groups.index_R]

    @override
    def formula(self) -> Formula:
        return Formula(
            "(1/P) sum_g (1/T_g) sum_(i in g) sum_t",
            r"\frac{1}{P} \sum_g \frac{1}{T_g} \sum_{i \in g} \sum_{t=1}^{l_i}",
            {"P": "groups with rows in the update, on all ranks", "T_g": "trainable steps of the group in the update"},
        )
