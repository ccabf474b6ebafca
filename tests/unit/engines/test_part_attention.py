"""Attention in parts against plain softmax over everything."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from grpo_lightning.engines import part_attention
from grpo_lightning.engines.part_attention import Mask, attend, attend_before, hiding, merged

DTYPES = {torch.float64: 1e-12, torch.float32: 1e-5}


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def mask_of(added: Tensor) -> Mask:
    everything = (added == -torch.inf).all(-1)
    return Mask(added, everything if bool(everything.any()) else None)


def plain(query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Float64, a head and a query at a time."""
    q, k, v, m = (each.double() for each in (query, key, value, mask))
    groups = q.shape[1] // k.shape[1]
    output, log_sum = q.new_zeros(*q.shape[:3], v.shape[-1]), q.new_zeros(q.shape[:3])
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for n in range(q.shape[2]):
                scores = scale * (k[b, h // groups] @ q[b, h, n]) + m[b, 0, min(n, m.shape[2] - 1)]
                log_sum[b, h, n] = scores.logsumexp(-1)
                if torch.isfinite(log_sum[b, h, n]):
                    output[b, h, n] = (scores - log_sum[b, h, n]).exp() @ v[b, h // groups]
    return output, log_sum


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [8, 6])
def test_by_both_ways_with_masks_that_hide_all(dtype: torch.dtype, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, depth), dtype=dtype)
    masks = [torch.zeros(2, 1, 1, 5), torch.zeros(2, 1, 1, 5), torch.zeros(2, 1, 3, 5)]
    masks[1][0] = masks[2][1, :, 2] = masks[2][0, :, :, 4] = -torch.inf
    masks[1][1, ..., 2:] = -torch.inf
    for mask in masks:
        wanted = plain(query, key, value, 0.3, mask)
        found = [attend(query, key, value, 0.3, mask_of(mask.to(dtype)))]
        monkeypatch.setattr(part_attention, "_FLASH_TYPES", ())
        found.append(attend(query, key, value, 0.3, mask_of(mask.to(dtype))))
        monkeypatch.undo()
        for output, log_sum in found:
            assert torch.allclose(output.double(), wanted[0], atol=DTYPES[dtype], rtol=0)
            assert torch.allclose(log_sum.double(), wanted[1], atol=DTYPES[dtype], rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_parts_are_the_whole(dtype: torch.dtype) -> None:
    query, key, value = tensors((2, 4, 3, 8), (2, 2, 9, 8), (2, 2, 9, 8), dtype=dtype, seed=1)
    mask = torch.zeros(2, 1, 3, 9, dtype=dtype)
    mask[0, :, :, :4] = -torch.inf
    mask[1, :, 1, 6:] = -torch.inf
    parts = [
        attend(query, key[:, :, part], value[:, :, part], 0.5, mask_of(mask[..., part]))
        for part in (slice(0, 4), slice(4, 9))
    ]
    whole, _ = plain(query, key, value, 0.5, mask)
    assert torch.allclose(merged(parts[0], parts[1]).double(), whole, atol=DTYPES[dtype], rtol=0)


@pytest.mark.parametrize("window", [None, 1, 2, 7, 19, 20, 400])
@pytest.mark.parametrize("block", [256, 3])
@pytest.mark.parametrize("depth", [8, 6])
def test_a_whole_sequence(window: int | None, block: int, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_attention, "_WINDOW_BLOCK", block)
    query, key, value = tensors((1, 4, 20, 8), (1, 2, 20, 8), (1, 2, 20, depth), dtype=torch.float64)
    hidden = torch.tensor([[k > q or (window is not None and k <= q - window) for k in range(20)] for q in range(20)])
    added = torch.zeros(20, 20, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    wanted, _ = plain(query, key, value, 0.4, added[None, None])
    flat = [each[0].transpose(0, 1) for each in (query, key, value)]
    found = attend_before(*flat, 0.4, window).transpose(0, 1)[None]  # type: ignore[arg-type, call-arg]
    assert torch.allclose(found, wanted, atol=1e-12, rtol=0)


def test_hidden_keys_as_a_mask() -> None:
    hidden = torch.tensor([[[[False, True], [True, True]]], [[[False, False], [True, False]]]])
    mask = hiding(hidden, torch.zeros(1, dtype=torch.float32))
    assert mask.added.tolist() == [[[[0, -torch.inf], [-torch.inf] * 2]], [[[0, 0], [-torch.inf, 0]]]]
    assert mask.hides_all is not None
    assert mask.hides_all.tolist() == [[[False, True]], [[False, False]]]
    twice = mask.repeated(2)
    assert twice.added[0, 0, :, 0].tolist() == [0, 0, -torch.inf, -torch.inf]
    assert twice.hides_all is not None
    assert twice.hides_all[0, 0].tolist() == [False, False, True, True]
    assert hiding(hidden[1:], torch.zeros(1)).hides_all is None
