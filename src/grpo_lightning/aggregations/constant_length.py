"""Rows are averaged, their steps added up and divided by a constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula


class ConstantLength(Aggregation):
    """Sum over steps by a constant, mean over rows, ``1/(N L) sum_i sum_t term_it`` with ``L = length``.

    ``N`` counts the update's rows with trainable steps on all ranks, those of advantage 0 among them. ``L`` is what the
    configuration says, never the width of a batch. With the advantage ``mean_centered`` it is Dr. GRPO.

    Source: Liu et al., arXiv 2503.20783.

    Args:
        length: ``L``: the largest number of steps that a row may have, say; at least 1.

    Example:
        >>> import torch
        >>> from grpo_lightning.aggregations.base import UpdateRows
        >>> from grpo_lightning.aggregations.constant_length import ConstantLength
        >>> ConstantLength(length=10).step_weights(UpdateRows(torch.tensor([1, 3]), torch.tensor([0, 0]))).tolist()
        [0.05, 0.05]
    """

    name = "constant_length"
    example: ClassVar[Mapping[str, Any]] = {"length": 8}
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "seq-mean-token-sum-norm divides by the width of the padded batch unless loss_scale_factor is set; versions "
        "that do not pass the update's row count divide by no N",
        "TRL": "dr_grpo with L = max_completion_length, averaged over the rows of each micro-batch, those without steps "
        "included, and then over micro-batches",
        "SkyRL": "seq_mean_token_sum_norm with L = max_seq_len; N includes rows without steps",
    }

    def __init__(self, *, length: int) -> None:
        require_range("length", length, low=1, high=float("inf"), high_open=True)
        self.length = length

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1 / (N L)``."""
        return torch.ones_like(rows.lengths_R, dtype=torch.float64) / (rows.lengths_R.shape[0] * self.length)

    @override
    def formula(self) -> Formula:
        return Formula(
            f"(1/(N {self.length})) sum_i sum_t",
            rf"\frac{{1}}{{N \cdot {self.length}}} \sum_i \sum_{{t=1}}^{{l_i}}",
            {"N": "rows of the update with trainable steps, on all ranks"},
            ("Liu et al. (Dr. GRPO), arXiv 2503.20783",),
        )
