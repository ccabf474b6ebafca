"""Sampling from what is probable enough beside the most probable choice."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.samplers.base import Sampler


class MinP(Sampler):
    """Every id with ``p >= min_p * max p``, after the temperature.

    The most probable id is always in. The support is narrow where the policy is sure and wide where it is not.

    Source: Nguyen et al., arXiv 2407.01082.

    Args:
        min_p: Share of the largest probability, from 0 (everything) to 1 (the most probable id and its equals).
        temperature: What logits are divided by before; positive.

    Example:
        >>> import torch
        >>> from grpo_lightning.samplers.min_p import MinP
        >>> MinP(min_p=0.5).support(torch.tensor([[0.6, 0.35, 0.05]]).log()).tolist()
        [[True, True, False]]
    """

    name = "min_p"

    def __init__(self, *, min_p: float = 0.05, temperature: float = 1.0) -> None:
        super().__init__(temperature=temperature)
        require_range("min_p", min_p, low=0.0, high=1.0)
        self.min_p = min_p

    @override
    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        if self.min_p == 0.0:
            return None
        # Of the differences of logarithms, the largest is exactly 0: the most probable id cannot be lost to rounding.
        return (log_probs_QV - log_probs_QV.amax(-1, keepdim=True)).exp() >= self.min_p

    @override
    def generate_arguments(self) -> dict[str, Any]:
        return {**super().generate_arguments(), "min_p": self.min_p}
