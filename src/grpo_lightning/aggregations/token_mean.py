"""Every step weighs the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.formula import Formula


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
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "token-mean; versions that do not pass the update's token count average the means of micro-batches",
        "TRL": "dapo, cispo and vespo divide by the tokens of the generation batch over the number of its updates, the same "
        "only where all of them hold equally many; bnpo averages the means of micro-batches",
        "SkyRL": "token_mean; with no step at all it divides by 1",
    }

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1/T``."""
        return torch.ones_like(rows.lengths_R, dtype=torch.float64) / rows.lengths_R.sum()

    @override
    def formula(self) -> Formula:
        return Formula(
            "(1/T) sum_i sum_t",
            r"\frac{1}{T} \sum_i \sum_{t=1}^{l_i}",
            {"T": "trainable steps of all rows of the update, on all ranks"},
            ("Yu et al. (DAPO), arXiv 2503.14476, eq. 8",),
        )
