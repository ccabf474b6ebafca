"""Sampling from a fixed number of most probable choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.functional.largest import at_least
from grpo_lightning.samplers.base import Sampler


class TopK(Sampler):
    """The ``k`` most probable ids, after the temperature; of equally probable ones the lowest.

    Exactly ``k`` ids, or all of them where there are no more. (``generate`` keeps every id that ties with the
    ``k``-th.)

    Source: Fan et al., arXiv 1805.04833.

    Args:
        k: Number of ids; at least 1.
        temperature: What logits are divided by before; positive.

    Example:
        >>> import torch
        >>> from grpo_lightning.samplers.top_k import TopK
        >>> TopK(k=2).support(torch.tensor([[0.3, 0.1, 0.3, 0.3]]).log()).tolist()
        [[True, False, True, False]]
    """

    name = "top_k"
    example: ClassVar[Mapping[str, Any]] = {"k": 3}

    def __init__(self, *, k: int = 50, temperature: float = 1.0) -> None:
        super().__init__(temperature=temperature)
        require_range("k", k, low=1)
        self.k = k

    @override
    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        requests, vocabulary = log_probs_QV.shape
        if self.k >= vocabulary:
            return None
        smallest_Q = log_probs_QV.topk(self.k, dim=-1).values[:, -1]
        return at_least(log_probs_QV, smallest_Q, torch.full((requests,), self.k, device=log_probs_QV.device))

    @override
    def generate_arguments(self) -> dict[str, Any]:
        return {**super().generate_arguments(), "top_k": self.k}
