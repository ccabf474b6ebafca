"""Every step weighs the same."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows


class TokenMean(Aggregation):
    """Mean over all trainable steps of the update, ``1/T sum_i sum_t term_it`` with ``T = sum_i l_i``.

    ``T`` counts the update's rows on all ranks, those of advantage 0 among them. Long rows weigh more than short ones.

    Source: Yu et al. (DAPO), arXiv 2503.14476.

    Example:
        >>> import torch
        >>> from grpo_lightning.aggregations.base import UpdateRows
        >>> from grpo_lightning.aggregations.token_mean import TokenMean
        >>> TokenMean().step_weights(UpdateRows(torch.tensor([1, 3]), torch.tensor([0, 0]))).tolist()
        [0.25, 0.25]
    """

    name = "token_mean"

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1/T``."""
        return torch.ones_like(rows.lengths_R, dtype=torch.float64) / rows.lengths_R.sum()
