"""How much likelier trainer than sampler finds a step or a row: where every correction begins."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from grpo_lightning.corrections.base import CorrectionInputs

Level = Literal["step", "sequence"]


def log_kappa(inputs: CorrectionInputs, level: Level = "step") -> Tensor:
    """``log(pi_old / mu)`` of each step, or summed over each row's steps.

    Args:
        inputs: Steps of a micro-batch or of an update.
        level: ``step`` or ``sequence``.

    Returns:
        [S] or [R] float64, without gradient; 0 where the policies agree.
    """
    old_S, sampler_S = inputs.old_log_probs_S.detach(), inputs.behaviour_log_probs_S.detach()
    log_ratio_S = old_S.to(torch.float64) - sampler_S.to(torch.float64)
    return log_ratio_S if level == "step" else inputs.sum_rows(log_ratio_S)


def to_steps(values: Tensor, inputs: CorrectionInputs, level: Level) -> Tensor:
    """[S] in the type of the log-probabilities: ``values`` of steps, or of rows repeated over their steps."""
    return (values if level == "step" else values[inputs.row_S]).to(inputs.old_log_probs_S.dtype)
