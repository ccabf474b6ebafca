"""One step for many rows: a token, its log-probability and its support, from logits and a sampler."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_lightning.functional.inverse_cdf import inverse_cdf_and_total
from grpo_lightning.samplers.base import Sampler

_CHUNK = 1 << 17
"""Logits that are widened at once: as many as stay in a core's cache."""


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
    uniform_Q = uniform_Q.to(logits_QV.device)
    if sampler.greedy:
        return _draw_best(logits_QV)
    if not sampler.restricts:
        token_Q, log_prob_Q = _draw_from_all(logits_QV, sampler.temperature, uniform_Q)
        return Draw(token_Q.cpu(), log_prob_Q.cpu(), None)
    log_probs_QV = torch.log_softmax(logits_QV.double() / sampler.temperature, dim=-1)
    keep_QV = sampler.support(log_probs_QV)
    if keep_QV is None:
        token_Q, log_prob_Q = _draw_from_all(log_probs_QV, 1.0, uniform_Q)
        return Draw(token_Q.cpu(), log_prob_Q.cpu(), None)
    token_Q, log_prob_Q = _draw_from_all(log_probs_QV.masked_fill_(~keep_QV, -torch.inf), 1.0, uniform_Q)
    ids = keep_QV.nonzero()[:, 1].to(torch.int32).cpu()
    return Draw(token_Q.cpu(), log_prob_Q.cpu(), list(torch.split(ids, keep_QV.sum(-1).tolist())))


def _draw_from_all(logits_QV: Tensor, temperature: float, uniform_Q: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens and log-probabilities, [Q] each: exponentials are taken once, and serve both."""
    tokens, log_probs = [], []
    rows = max(1, _CHUNK // logits_QV.shape[1])
    for logits, uniform in zip(torch.split(logits_QV, rows), torch.split(uniform_Q, rows), strict=True):
        wide = logits.to(torch.float64, copy=True)
        largest = logits.amax(-1, keepdim=True).double()
        weights = wide.sub_(largest).div_(temperature).exp_() if temperature != 1.0 else wide.sub_(largest).exp_()
        token, total = inverse_cdf_and_total(weights, uniform)
        chosen = (logits.gather(-1, token[:, None]).double() - largest).squeeze(-1) / temperature
        tokens.append(token)
        log_probs.append(chosen - total.log())
    return torch.cat(tokens), torch.cat(log_probs)


def _draw_best(logits_QV: Tensor) -> Draw:
    best_Q1 = logits_QV.argmax(-1, keepdim=True)
    largest_Q = logits_QV.gather(-1, best_Q1).squeeze(-1).double()
    # 0, but for logits that are not finite.
    log_prob_Q = largest_Q - largest_Q
    best_Q1 = best_Q1.cpu()
    return Draw(best_Q1[:, 0], log_prob_Q.cpu(), list(best_Q1.to(torch.int32).unbind()))
