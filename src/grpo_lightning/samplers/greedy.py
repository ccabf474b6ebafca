"""Always the most probable choice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.samplers.base import Sampler


class Greedy(Sampler):
    """The most probable id; of equally probable ones the lowest.

    Members of a group cannot differ, so it serves evaluation and baselines, not training.

    Example:
        >>> import torch
        >>> from grpo_lightning.samplers.greedy import Greedy
        >>> Greedy().support(torch.tensor([[0.2, 0.4, 0.4]]).log()).tolist()
        [[False, True, False]]
    """

    name = "greedy"
    explores = False
    greedy = True

    def __init__(self) -> None:
        super().__init__()

    @override
    def support(self, log_probs_QV: Tensor) -> Tensor:
        best_Q1 = log_probs_QV.argmax(-1, keepdim=True)
        return torch.zeros_like(log_probs_QV, dtype=torch.bool).scatter_(-1, best_Q1, True)

    @override
    def generate_arguments(self) -> dict[str, Any]:
        return {"do_sample": False}
