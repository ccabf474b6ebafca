"""Importance weights between sampler and trainer, capped."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.errors import require, require_range


class TruncatedImportance(Correction):
    """``min(pi_old / mu, cap)`` a step, or of the product over the row's steps; ``mu`` is the policy that sampled.

    Steps that the sampler drew too often are scaled down, those that it drew too rarely up, by ``cap`` at most. Where
    sampler and trainer agree the weight is 1. Weights are not normalised and leave every count of steps and rows as
    it is.

    Source: Yao et al., fengyao.notion.site/off-policy-rl, for ``step``; Liu, Li et al.,
    richardli.xyz/rl-collapse, for ``sequence``.

    Args:
        cap: Largest weight; at least 1, so that agreeing policies keep weight 1.
        level: ``step``: each step by its own ratio; ``sequence``: all steps of a row by the product of their ratios.

    Example:
        >>> from grpo_lightning.corrections.truncated_importance import TruncatedImportance
        >>> TruncatedImportance(cap=5.0).level
        'step'
    """

    name = "truncated_importance"

    def __init__(self, *, cap: float = 2.0, level: Literal["step", "sequence"] = "step") -> None:
        require_range("cap", cap, low=1.0, high=float("inf"), high_open=True)
        require(level in ("step", "sequence"), "level", level, "is no level", "set 'step' or 'sequence'")
        self.cap, self.level = cap, level

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights between 0 and ``cap``, without gradient; normalised by nothing."""
        log_ratio_S = (inputs.old_log_probs_S - inputs.behaviour_log_probs_S).detach()
        if self.level == "sequence":
            sums_R = torch.zeros_like(inputs.lengths_R, dtype=torch.float64)
            sums_R.index_add_(0, inputs.row_S, log_ratio_S.to(torch.float64))
            log_ratio_S = sums_R[inputs.row_S].to(log_ratio_S.dtype)
        return log_ratio_S.exp().clamp(max=self.cap)
