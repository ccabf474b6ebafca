"""Sampling from the most probable choices that hold a given mass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.functional.largest import at_least
from grpo_lightning.samplers.base import Sampler


class TopP(Sampler):
    """The smallest set of most probable ids whose probabilities, after the temperature, add up to at least ``p``.

    The id that reaches ``p`` is in, so there is always at least one. Of equally probable ids the lowest come first.

    Source: Holtzman et al., arXiv 1904.09751.

    Args:
        p: Mass to reach; above 0, and 1 for everything.
        temperature: What logits are divided by before; positive.

    Example:
        >>> import torch
        >>> from grpo_lightning.samplers.top_p import TopP
        >>> TopP(p=0.7).support(torch.tensor([[0.1, 0.5, 0.4]]).log()).tolist()
        [[False, True, True]]
    """

    name = "top_p"

    def __init__(self, *, p: float = 0.95, temperature: float = 1.0) -> None:
        super().__init__(temperature=temperature)
        require_range("p", p, low=0.0, high=1.0, low_open=True)
        self.p = p

    @override
    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        if self.p == 1.0:
            return None
        count_Q, smallest_Q = _nucleus(log_probs_QV, self.p)
        return at_least(log_probs_QV, smallest_Q, count_Q)

    @override
    def generate_arguments(self) -> dict[str, Any]:
        return {**super().generate_arguments(), "top_p": self.p}


def _nucleus(log_probs_QV: Tensor, p: float, width: int = 256) -> tuple[Tensor, Tensor]:
    """How many of the most probable ids add up to ``p``, and the smallest log-probability among them, each [Q].

    Only the ``width`` most probable ids are sorted at first, and more for the rows that need them.
    """
    requests, vocabulary = log_probs_QV.shape
    count_Q = torch.full((requests,), vocabulary, device=log_probs_QV.device)
    smallest_Q = log_probs_QV.new_full((requests,), -torch.inf)
    left = torch.arange(requests, device=log_probs_QV.device)
    while left.numel() > 0:
        width = min(width, vocabulary)
        values = log_probs_QV[left].topk(width, dim=-1).values
        short = values.exp().cumsum(-1) < p
        last = short.sum(-1).clamp(max=width - 1)
        count_Q[left], smallest_Q[left] = last + 1, values.gather(-1, last[:, None]).squeeze(1)
        left = left[short[:, -1]] if width < vocabulary else left[:0]
        width *= 16
    return count_Q, smallest_Q
