"""What is counted on tensors without numbers."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.planning.live_bytes import ACTIVATIONS, GRADIENTS, WEIGHTS, LiveBytes


def test_bytes_that_are_alive_at_once() -> None:
    live = LiveBytes()
    with live:
        with live.counting(WEIGHTS):
            weight = torch.empty(10, 10)
        first = weight * 2  # 400 bytes
        second = first + 1  # 400 more
        del first
        third = second.double()  # 800 more, 400 are gone
        assert dict(live.live) == {WEIGHTS: 400, ACTIVATIONS: 1200}
        del second, third
        assert live.live[ACTIVATIONS] == 0
        assert dict(live.peak) == {WEIGHTS: 400, ACTIVATIONS: 1200}
        live.restart()
        view = weight[:5]  # a view holds nothing of its own
        assert live.peak == {WEIGHTS: 400, ACTIVATIONS: 0}
        live.rename(view, GRADIENTS)
        assert (live.live[WEIGHTS], live.live[GRADIENTS]) == (0, 400)


def test_what_backward_keeps() -> None:
    live = LiveBytes()
    with live:
        left, right = torch.empty(4, 8).requires_grad_(), torch.empty(8, 16).requires_grad_()
        before = live.live[ACTIVATIONS]
        kept = (left @ right).exp()  # the product goes, its exponential stays for backward
        assert live.live[ACTIVATIONS] - before == 4 * 16 * 4
        kept.sum().backward()
        assert left.grad is not None
        assert live.live[ACTIVATIONS] - before == (4 * 16 + 4 * 8 + 8 * 16) * 4


def test_indices_are_real_and_numbers_are_ones() -> None:
    live = LiveBytes()
    with live:
        assert torch.arange(3).tolist() == [0, 1, 2]
        values = torch.zeros(3)
        assert float(values.sum()) == 1.0
        assert bool((values > 5).any())
        assert values.nonzero().squeeze(1).tolist() == [0, 1, 2]


def test_nothing_is_allocated() -> None:
    live = LiveBytes()
    with live:
        large = torch.empty(1 << 30, 1 << 10)  # 4 TiB
        assert live.live[ACTIVATIONS] == pytest.approx(2**42)
        assert (large + large).shape == (1 << 30, 1 << 10)
