"""Terms are added up."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.formula import Formula


class TokenSum(Aggregation):
    """Sum over all trainable steps of the update, ``sum_i sum_t term_it``: divided by nothing.

    The size of a step grows with the number and the length of the update's rows.

    Example:
        >>> import torch
        >>> from grpo_lightning.aggregations.base import UpdateRows
        >>> from grpo_lightning.aggregations.token_sum import TokenSum
        >>> TokenSum().step_weights(UpdateRows(torch.tensor([1, 3]), torch.tensor([0, 0]))).tolist()
        [1.0, 1.0]
    """

    name = "token_sum"

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1``."""
        return torch.ones_like(rows.lengths_R, dtype=torch.float64)

    @override
    def formula(self) -> Formula:
        return Formula("sum_i sum_t", r"\sum_i \sum_{t=1}^{l_i}", {"i": "rows of the update, on all ranks"})
