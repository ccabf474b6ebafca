"""Attention over a part of what a query may see, with the log-sum-exp by which parts are put together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_FLASH_TYPES = (torch.float32, torch.float64, torch.bfloat16)
_WINDOW_BLOCK = 256
"""Queries of a sliding window that share one mask."""


@dataclass(frozen=True)
class Mask:
    """What queries may not see."""

    added: Tensor
    """[B, 1, 1 or N, L]: minus infinity where a key is hidden, 0 elsewhere."""
    hides_all: Tensor | None
    """[B, 1, 1 or N]: queries from which every key is hidden; ``None`` if there is none."""

    def repeated(self, times: int) -> Mask:
        """Of [B, 1, N * times, L]: each query ``times`` times, side by side."""
        everything = None if self.hides_all is None else self.hides_all.repeat_interleave(times, dim=2)
        return Mask(self.added.repeat_interleave(times, dim=2), everything)


def hiding(hidden: Tensor, like: Tensor) -> Mask:
    """The mask of ``hidden``, [B, 1, 1 or N, L], of the type and device of ``like``."""
    added = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    added.masked_fill_(hidden.to(like.device), -torch.inf)
    everything = hidden.all(-1)
    return Mask(added, everything.to(like.device) if bool(everything.any()) else None)


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Mask | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """``softmax(scale * q k + mask) v`` and the log-sum-exp of ``scale * q k + mask``.

    Args:
        query: [B, heads, N, depth].
        key: [B, key heads, L, depth]; heads share key heads in order.
        value: [B, key heads, L, value depth].
        scale: What products are multiplied by.
        mask: What is hidden. A query from which everything is reads 0, at a log-sum-exp of minus infinity.
        causal: The i-th query sees the first i keys only; N = L then, and there is no mask.

    Returns:
        What is read, [B, heads, N, value depth], and log-sum-exps, [B, heads, N], float32 or wider.
    """
    flash = query.device.type == "cpu" and query.dtype in _FLASH_TYPES and query.shape[-1] == value.shape[-1]
    attend_by = _flash if flash else _products
    output, log_sum = attend_by(query, key, value, scale, None if mask is None else mask.added, causal)
    if mask is not None and mask.hides_all is not None:
        log_sum = log_sum.masked_fill(mask.hides_all, -torch.inf)
    return output, log_sum


def _flash(
    query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    output, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=mask, scale=scale
    )
    return output, log_sum


def _products(
    query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    grouped = query.reshape(query.shape[0], key.shape[1], -1, *query.shape[2:])
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = (grouped @ key.unsqueeze(2).transpose(-1, -2)).to(wide) * scale
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    elif mask is not None:
        scores = scores + mask.unsqueeze(2)
    log_sum = scores.logsumexp(-1)
    shares = (scores - log_sum.clamp(min=torch.finfo(wide).min)[..., None]).exp()
    return (shares.to(value.dtype) @ value.unsqueeze(2)).flatten(1, 2), log_sum.flatten(1, 2)


def attend_before(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
    """[N, heads, value depth]: every token of one sequence reads itself and what comes before it.

    Args:
        query: [N, heads, depth].
        key: [N, key heads, depth].
        value: [N, key heads, value depth].
        scale: What products are multiplied by.
        window: Tokens that each may look back on, itself included; ``None`` for all.
    """
    length = query.shape[0]
    query, key, value = (each.transpose(0, 1)[None] for each in (query, key, value))
    if window is None or window >= length:
        return attend(query, key, value, scale, causal=True)[0][0].transpose(0, 1)
    parts = []
    for start in range(0, length, _WINDOW_BLOCK):
        end, first = min(start + _WINDOW_BLOCK, length), max(0, start - window + 1)
        back = torch.arange(start, end)[:, None] - torch.arange(first, end)
        mask = hiding(((back < 0) | (back >= window))[None, None], query)
        part, _ = attend(query[:, :, start:end], key[:, :, first:end], value[:, :, first:end], scale, mask)
        parts.append(part)
    return torch.cat(parts, dim=2)[0].transpose(0, 1)


def merged(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """Attention over two parts together, from attention over each and its log-sum-exp.

    Args:
        first: [..., depth] and [...].
        second: The same of the other part; not minus infinity.
    """
    share = torch.sigmoid(first[1] - second[1]).to(first[0].dtype)
    return torch.lerp(second[0], first[0], share.unsqueeze(-1))
