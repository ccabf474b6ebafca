"""Every row weighs the same, spread over its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.formula import Formula


class SequenceMeanTokenMean(Aggregation):
    """Mean over rows of the mean over their steps, ``1/N sum_i 1/l_i sum_t term_it``.

    ``N`` counts the update's rows with trainable steps on all ranks, those of advantage 0 among them.

    Source: Shao et al. (DeepSeekMath), arXiv 2402.03300.

    Example:
        >>> import torch
        >>> from grpo_lightning.aggregations.base import UpdateRows
        >>> from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
        >>> SequenceMeanTokenMean().step_weights(UpdateRows(torch.tensor([1, 3]), torch.tensor([0, 0]))).tolist()
        [0.5, 0.16666666666666666]
    """

    name = "sequence_mean_token_mean"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "seq-mean-token-mean; where it counts N itself, rows without steps are left out; versions that do not pass the "
        "update's row count average the means of micro-batches",
        "TRL": "grpo and sapo average over the rows of each micro-batch, those without steps included, and then over "
        "micro-batches, which is the same where all of them hold equally many rows with steps",
        "SkyRL": "sequence_mean; N includes rows without steps",
    }

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1 / (N l_i)``."""
        return 1.0 / (rows.lengths_R.shape[0] * rows.lengths_R.to(torch.float64))

    @override
    def formula(self) -> Formula:
        return Formula(
            "(1/N) sum_i (1/l_i) sum_t",
            r"\frac{1}{N} \sum_i \frac{1}{l_i} \sum_{t=1}^{l_i}",
            {"N": "rows of the update with trainable steps, on all ranks", "l_i": "trainable steps of the row"},
            ("Shao et al. (DeepSeekMath), arXiv 2402.03300, eq. 3",),
        )
