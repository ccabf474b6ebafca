"""One step for many rows: a token, its log-probability and its support, from logits and a sampler."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_lightning.functional.inverse_cdf import inverse_cdf
from grpo_lightning.samplers.base import Sampler


@dataclass(frozen=True)
class Draw:
    """What one step chose."""

    token_Q: Tensor
    """[Q] int64."""
    log_prob_Q: Tensor
    """[Q] float64: under the distribution on the support."""
    support: list[Tensor] | None
    """[Q] int32 ids each; ``None`` for everything."""


def draw(logits_QV: Tensor, sampler: Sampler, uniform_Q: Tensor) -> Draw:
    """Invert ``uniform`` through the cumulative distribution of ``softmax(logits / T)`` on the sampler's support.

    Args:
        logits_QV: [Q, V].
        sampler: Temperature and support.
        uniform_Q: [Q] float64 in (0, 1).
    """
    log_probs_QV = torch.log_softmax(logits_QV.double() / sampler.temperature, dim=-1)
    keep_QV = sampler.support(log_probs_QV)
    if keep_QV is not None:
        log_probs_QV = torch.log_softmax(log_probs_QV.masked_fill(~keep_QV, -torch.inf), dim=-1)
    token_Q = inverse_cdf(log_probs_QV.exp(), uniform_Q.to(log_probs_QV.device))
    log_prob_Q = log_probs_QV.gather(-1, token_Q[:, None]).squeeze(-1)
    support = None
    if keep_QV is not None:
        ids = keep_QV.nonzero()[:, 1].to(torch.int32).cpu()
        support = list(torch.split(ids, keep_QV.sum(-1).tolist()))
    return Draw(token_Q.cpu(), log_prob_Q.cpu(), support)
