"""Causal attention between tokens that lie flat, where many rows follow one prompt that is there once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from typing_extensions import override

from grpo_lightning.functional.attention_pieces import Pieces, PromptRows, pieces_of

PIECEWISE = {"cpu"}
"""Devices on which attention goes piece by piece."""


def prompt_attention(
    query: Tensor, key: Tensor, value: Tensor, parts: tuple[PromptRows, ...], *, scale: float, window: int | None = None
) -> Tensor:
    """[1, N, heads, value depth]: ``softmax(scale q k^T) v`` of each token over its prompt and its own row up to itself.

    Nothing is repeated for the rows of a prompt on the CPU: their queries meet the prompt's keys together, each row's meet
    its own keys, and the two results are merged by their log-sum-exps (as in attention split over devices: Liu et al.,
    arXiv 2310.01889). Stretches of about equal length are computed in one call. Elsewhere, and where a sliding window hides
    something, the prompt's keys are laid before each row's.

    Args:
        query: [1, heads, N, depth].
        key: [1, key heads, N, depth]; each serves ``heads / key heads`` heads that follow each other.
        value: [1, key heads, N, value depth].
        parts: Prompts with their rows, end to end over all N tokens.
        scale: What products are multiplied by.
        window: Tokens that a token may look back on, itself included; ``None`` for all.
    """
    if torch.is_autocast_enabled(query.device.type):  # as it does with the framework's own attention
        narrow = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(narrow), key.to(narrow), value.to(narrow)
    longest = max(part.prompt + max(part.rows, default=0) for part in parts)
    hides = window is not None and window < longest
    if query.device.type not in PIECEWISE or hides or value.shape[-1] != query.shape[-1]:
        return _repeated(query, key, value, parts, scale, window if hides else None)
    merged: Tensor = _Merged.apply(query, key, value, parts, scale)  # type: ignore[no-untyped-call]
    return merged


def _flash(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp [B, heads, N] of the CPU's fused attention."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal, scale=scale)  # type: ignore[no-any-return]


class _Merged(torch.autograd.Function):
    """Attention piece by piece. The backward of a piece is that of the whole when it is given the whole's output and
    log-sum-exp: probabilities are ``exp(score - log-sum-exp)`` either way."""

    @staticmethod
    @override
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, parts: tuple[PromptRows, ...], scale: float
    ) -> Tensor:
        flat = [each[0].transpose(0, 1) for each in (query, key, value)]
        output_NHD = torch.empty_like(flat[0], memory_format=torch.contiguous_format)
        total_NH = output_NHD.new_empty(output_NHD.shape[:2], dtype=torch.promote_types(query.dtype, torch.float32))
        for pieces in pieces_of(parts):
            output, total = _read(flat, pieces, scale)
            if not pieces.causal:
                above, above_total = output, total
                inside, inside_total = (pieces.queries.take(each) for each in (output_NHD, total_NH))
                # With d = inside_total - above_total, the weights of the two are sigmoid(-d) and sigmoid(d).
                weight = torch.sigmoid(inside_total - above_total)[..., None]
                output = torch.lerp(above.to(weight), inside.to(weight), weight)
                total = torch.logaddexp(above_total, inside_total)
            pieces.queries.put(output_NHD, output)
            pieces.queries.put(total_NH, total)
        ctx.save_for_backward(*flat, output_NHD, total_NH)
        ctx.parts, ctx.scale = parts, scale
        return output_NHD[None]

    @staticmethod
    @override
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *saved, total_NH = ctx.saved_tensors
        dtype = gradient.dtype
        # The fused backward is several times slower in narrow types, and sums over rows want a wide one anyway.
        query, key, value, output, gradient = (each.to(total_NH) for each in (*saved, gradient[0]))
        found = [torch.zeros_like(each, memory_format=torch.contiguous_format) for each in (query, key, value)]
        for pieces in pieces_of(ctx.parts):
            parts = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                pieces.queries.take(gradient, padding=0.0),
                pieces.queries.take(query),
                pieces.keys.take(key),
                pieces.keys.take(value),
                pieces.queries.take(output),
                pieces.queries.take(total_NH),
                0.0,
                pieces.causal,
                scale=ctx.scale,
            )
            for whole, where, part in zip(found, (pieces.queries, pieces.keys, pieces.keys), parts, strict=True):
                where.add(whole, part)
        return *(each.to(dtype).transpose(0, 1)[None] for each in found), None, None


def _read(flat: list[Tensor], pieces: Pieces, scale: float) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, [B, heads, W], of pieces of queries, keys and values [N, heads, depth]."""
    query, key, value = flat
    taken = (pieces.queries.take(query), pieces.keys.take(key), pieces.keys.take(value))
    return _flash(*taken, scale, pieces.causal)


def _repeated(
    query: Tensor, key: Tensor, value: Tensor, parts: tuple[PromptRows, ...], scale: float, window: int | None
) -> Tensor:
    """The same by the framework's attention, a call a prompt and a call for its rows, padded to the longest."""
    outputs = []
    for part in parts:
        own = slice(part.start, part.middle)
        outputs.append(_attend(query[:, :, own], key[:, :, own], value[:, :, own], scale, window))
        if part.rows:
            lengths, span = list(part.rows), slice(part.middle, part.end)
            rows = [_padded(whole[:, :, span], lengths) for whole in (query, key, value)]
            keys, values = (
                torch.cat([whole[:, :, own].expand(len(lengths), -1, -1, -1), each], dim=2)
                for whole, each in zip((key, value), rows[1:], strict=True)
            )
            found = _attend(rows[0], keys, values, scale, window)
            outputs.append(
                torch.cat([each[None, :, :length] for each, length in zip(found, lengths, strict=True)], dim=2)
            )
    return torch.cat(outputs, dim=2).transpose(1, 2)


def _padded(flat: Tensor, lengths: list[int]) -> Tensor:
    """[R, heads, longest, depth]: rows that lie end to end, padded behind."""
    rows = torch.split(flat, lengths, dim=2)
    return torch.cat([pad(each, (0, 0, 0, max(lengths) - each.shape[2])) for each in rows])


def _attend(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
    """[R, heads, N, value depth]: causal attention of the last N of the keys' positions over all of them."""
    steps, context = query.shape[2], key.shape[2]
    grouped = query.shape[1] != key.shape[1]
    if window is None and steps == context:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=grouped)
    at = torch.arange(context - steps, context, device=query.device)[:, None]
    other = torch.arange(context, device=query.device)[None, :]
    seen = other <= at
    if window is not None:
        seen &= other > at - window
    return scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale, enable_gqa=grouped)
