"""Every row weighs the same, spread over its steps."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.aggregations.base import Aggregation, UpdateRows


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

    @override
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``1 / (N l_i)``."""
        return 1.0 / (rows.lengths_R.shape[0] * rows.lengths_R.to(torch.float64))
