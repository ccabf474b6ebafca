from __future__ import annotations

import torch

from grpo_lightning.losses.clipping import clip_gain, clip_latex, clip_text


def test_the_ratio_is_held_only_in_the_direction_of_the_advantage() -> None:
    ratio = torch.tensor([0.5, 0.5, 1.0, 2.0, 2.0, 2.0], requires_grad=True)
    clipped = clip_gain(ratio, torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 0.0]), 0.75, 1.5)
    assert clipped.ratio.tolist() == [0.5, 0.75, 1.0, 1.5, 2.0, 2.0]
    assert clipped.low.tolist() == [False, True, False, False, False, False]
    assert clipped.high.tolist() == [False, False, False, True, False, False]
    (gradient,) = torch.autograd.grad(clipped.ratio.sum(), ratio)
    assert gradient.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]


def test_on_a_bound_the_gradient_goes_on() -> None:
    ratio = torch.ones(2, requires_grad=True)
    (gradient,) = torch.autograd.grad(clip_gain(ratio, torch.tensor([1.0, -1.0]), 1.0, 1.0).ratio.sum(), ratio)
    assert gradient.tolist() == [1.0, 1.0]


def test_the_texts() -> None:
    assert clip_text("s_i", "A_i", 0.9997, 1.0004) == "min(s_i A_i, clip(s_i, 0.9997, 1.0004) A_i)"
    assert r"\operatorname{clip}(s_i, 0.9997, 1.0004) A_i" in clip_latex("s_i", "A_i", 0.9997, 1.0004)
