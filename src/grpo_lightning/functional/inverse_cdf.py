"""Drawing from a categorical distribution with one uniform number."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 256
"""Ids whose probabilities are added up before any is looked at alone."""


def inverse_cdf(probabilities_QV: Tensor, uniform_Q: Tensor) -> Tensor:
    """[Q] int64: smallest id whose cumulative probability, in order of ids, exceeds ``uniform * total``.

    An id of probability 0 is never drawn.

    Args:
        probabilities_QV: [Q, V] float64, non-negative, not all zero; need not add up to 1.
        uniform_Q: [Q] float64 in (0, 1).
    """
    return inverse_cdf_and_total(probabilities_QV, uniform_Q)[0]


def inverse_cdf_and_total(probabilities_QV: Tensor, uniform_Q: Tensor) -> tuple[Tensor, Tensor]:
    """What :func:`inverse_cdf` draws, and the totals, [Q] each, with one pass over the probabilities.

    They are added up in blocks of ids; the block is drawn first, and then an id in it.
    """
    rows, vocabulary = probabilities_QV.shape
    whole = vocabulary // _BLOCK
    if vocabulary <= _BLOCK:
        cumulative_QV = probabilities_QV.cumsum(-1)
        total_Q = cumulative_QV[:, -1]
        return _first_above(probabilities_QV, cumulative_QV, uniform_Q.to(cumulative_QV) * total_Q), total_Q
    sums_QB = probabilities_QV[:, : whole * _BLOCK].view(rows, whole, _BLOCK).sum(-1)
    if whole * _BLOCK < vocabulary:
        rest_Q1 = probabilities_QV[:, whole * _BLOCK :].sum(-1, keepdim=True)
        sums_QB = torch.cat([sums_QB, rest_Q1], dim=-1)
    cumulative_QB = sums_QB.cumsum(-1)
    total_Q = cumulative_QB[:, -1]
    threshold_Q = uniform_Q.to(total_Q) * total_Q
    block_Q = _first_above(sums_QB, cumulative_QB, threshold_Q)
    before_Q = torch.where(block_Q > 0, cumulative_QB.gather(-1, (block_Q - 1).clamp(min=0)[:, None])[:, 0], 0.0)
    ids_QI = block_Q[:, None] * _BLOCK + torch.arange(_BLOCK, device=block_Q.device)
    inside_QI = probabilities_QV.gather(-1, ids_QI.clamp(max=vocabulary - 1)).masked_fill(ids_QI >= vocabulary, 0.0)
    id_Q = _first_above(inside_QI, before_Q[:, None] + inside_QI.cumsum(-1), threshold_Q)
    return block_Q * _BLOCK + id_Q, total_Q


def _first_above(weights: Tensor, cumulative: Tensor, threshold_Q: Tensor) -> Tensor:
    """[Q]: first index whose cumulative weight exceeds the threshold; the last of positive weight if rounding hides it."""
    index_Q = (cumulative <= threshold_Q[:, None]).sum(-1)
    last_Q = weights.shape[-1] - 1 - (weights > 0).flip(-1).int().argmax(-1)
    return index_Q.minimum(last_Q)
