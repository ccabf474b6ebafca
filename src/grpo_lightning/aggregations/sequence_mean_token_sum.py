"""Rows are averaged, their steps added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.formula import Formula


class SequenceMeanTokenSum(Aggregation):
    """Mean over rows of the sum over their steps, ``1/N sum_i sum_t term_it``.

    ``N`` counts the update's rows with trainable steps on all ranks, those of advantage 0 among them. With terms
    ``-A log pi`` it is the policy gradient of whole rows, without a bias from length.

    Example:
        >>> import torch
        >>> from grpo_lightning.aggregations.base import UpdateRows
        >>> from grpo_lightning.aggregations.sequence_mean_token_sum import SequenceMeanTokenSum
        >>> SequenceMeanTokenSum().step_weights(UpdateRows(torch.tensor([1, 3]), torch.tensor([0, 0]))).tolist()
        [0.5, 0.5]
    """

    name = "sequence_mean_token_sum"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "seq-mean-token-sum; versions that do not pass the update's row count average the means of micro-batches",
        "TRL": "luspo only, averaged over the rows of each micro-batch, those without steps included, then over micro-batches",
    }

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1/N``."""
        return torch.ones_like(rows.lengths_R, dtype=torch.float64) / rows.lengths_R.shape[0]

    @override
    def formula(self) -> Formula:
        return Formula(
            "(1/N) sum_i sum_t",
            r"\frac{1}{N} \sum_i \sum_{t=1}^{l_i}",
            {"N": "rows of the update with trainable steps, on all ranks"},
        )
