"""Attention with shared prompts against plain softmax over an explicit mask, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from grpo_lightning.functional import prompt_attention as module
from grpo_lightning.functional.attention_pieces import PromptRows
from grpo_lightning.functional.prompt_attention import prompt_attention


def laid(shapes: list[tuple[int, tuple[int, ...]]]) -> tuple[PromptRows, ...]:
    parts: list[PromptRows] = []
    for prompt, rows in shapes:
        parts.append(PromptRows(parts[-1].end if parts else 0, prompt, rows))
    return tuple(parts)


PARTS = laid([(5, (3, 1, 7)), (1, (2,)), (4, ()), (9, (1, 1, 1, 20)), (2, (70, 65))])
TOKENS = PARTS[-1].end


def seen(parts: tuple[PromptRows, ...], window: int | None) -> Tensor:
    """[N, N] bool, token by token: which token reads which."""
    mask = torch.zeros(parts[-1].end, parts[-1].end, dtype=torch.bool)
    for part in parts:
        prompt, begin = list(range(part.start, part.start + part.prompt)), part.start + part.prompt
        sequences = [prompt]
        for length in part.rows:
            sequences.append([*prompt, *range(begin, begin + length)])
            begin += length
        for tokens in sequences:
            for at, token in enumerate(tokens):
                first = 0 if window is None else max(0, at - window + 1)
                mask[token, tokens[first : at + 1]] = True
    return mask


def by_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    """[1, N, heads, value depth], a head at a time."""
    share = query.shape[1] // key.shape[1]
    heads = []
    for head in range(query.shape[1]):
        scores = (query[0, head] @ key[0, head // share].T * scale).masked_fill(~mask, -torch.inf)
        heads.append(torch.softmax(scores, dim=-1) @ value[0, head // share])
    return torch.stack(heads, dim=1)[None]


def inputs(
    heads: int, key_heads: int, depth: int, value_depth: int, dtype: torch.dtype, size: float = 1.0
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(heads)
    shapes = [(1, heads, TOKENS, depth), (1, key_heads, TOKENS, depth), (1, key_heads, TOKENS, value_depth)]
    return [(torch.randn(shape, generator=generator, dtype=torch.float64) * size).to(dtype) for shape in shapes]


@pytest.mark.parametrize("heads", [(6, 2), (3, 3), (4, 1)])
@pytest.mark.parametrize("window", [None, 2, 4, 66, 1000])
@pytest.mark.parametrize("size", [1.0, 12.0])
def test_values_and_gradients(heads: tuple[int, int], window: int | None, size: float) -> None:
    found_in = [each.requires_grad_() for each in inputs(*heads, 8, 8, torch.float64, size)]
    wanted_in = [each.detach().clone().requires_grad_() for each in found_in]
    found = prompt_attention(found_in[0], found_in[1], found_in[2], PARTS, scale=0.7, window=window)
    wanted = by_softmax(wanted_in[0], wanted_in[1], wanted_in[2], seen(PARTS, window), 0.7)
    assert float((found - wanted).abs().max()) < 1e-13 * size
    gradient = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pairs = zip(
        torch.autograd.grad(found, found_in, gradient), torch.autograd.grad(wanted, wanted_in, gradient), strict=True
    )
    for one, two in pairs:
        assert float((one - two).norm() / two.norm()) < 1e-13
    assert float(found.abs().max()) > 1


def test_values_of_another_depth() -> None:
    query, key, value = inputs(4, 2, 8, 6, torch.float64)
    found = prompt_attention(query, key, value, PARTS, scale=0.3)
    assert float((found - by_softmax(query, key, value, seen(PARTS, None), 0.3)).abs().max()) < 1e-13


def test_the_path_of_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is used where the fused attention of the CPU is not: the same numbers."""
    monkeypatch.setattr(module, "_flash", None)  # not reached
    found_in = [each.requires_grad_() for each in inputs(6, 2, 8, 8, torch.float64)]
    found = module._repeated(found_in[0], found_in[1], found_in[2], PARTS, 0.7, None)
    wanted = by_softmax(found_in[0], found_in[1], found_in[2], seen(PARTS, None), 0.7)
    gradient = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float((found - wanted).abs().max()) < 1e-13
    pairs = zip(
        torch.autograd.grad(found, found_in, gradient), torch.autograd.grad(wanted, found_in, gradient), strict=True
    )
    for one, two in pairs:
        assert float((one - two).norm() / two.norm()) < 1e-13


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 5e-6), (torch.bfloat16, 3e-2)])
def test_narrow_types_are_off_by_their_rounding(dtype: torch.dtype, error: float) -> None:
    found_in = [each.requires_grad_() for each in inputs(6, 2, 8, 8, dtype)]
    wanted_in = [each.detach().double().requires_grad_() for each in found_in]
    found = prompt_attention(found_in[0], found_in[1], found_in[2], PARTS, scale=0.35)
    wanted = by_softmax(wanted_in[0], wanted_in[1], wanted_in[2], seen(PARTS, None), 0.35)
    assert found.dtype == dtype
    assert float((found - wanted).abs().max()) < error
    gradient = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found_grads = torch.autograd.grad(found, found_in, gradient.to(dtype))
    for one, two in zip(found_grads, torch.autograd.grad(wanted, wanted_in, gradient), strict=True):
        assert float((one.double() - two).norm() / two.norm()) < error


def test_autocast_narrows_what_the_model_mixes() -> None:
    """Positions widen queries and keys under autocast, and values stay narrow."""
    query, key, value = inputs(6, 2, 8, 8, torch.float32)
    narrow = [each.bfloat16() for each in (query, key, value)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = prompt_attention(query, key, narrow[2], PARTS, scale=0.35)
    assert torch.equal(found, prompt_attention(narrow[0], narrow[1], narrow[2], PARTS, scale=0.35))
