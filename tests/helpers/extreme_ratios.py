"""Losses far outside what exponentials can hold."""

from __future__ import annotations

import torch

from grpo_lightning.losses.base import PolicyLoss
from helpers.adversarial import Row, inputs_of

EXTREMES = [-500.0, -20.0, 0.0, 20.0, 500.0]
"""Log-ratios of a step."""


def expect_finite(loss: PolicyLoss, log_ratio: float, dtype: torch.dtype) -> None:
    """Terms and gradients are finite and of ``dtype``, those of advantage 0 are 0, metrics are finite and hold no gradient.

    The steps' log-ratio is ``log_ratio`` to the old policy and twice that to the sampler; rows have one step and three.
    """
    for length in (1, 3):
        rows = [
            Row(0, [-1.0] * length, [-1.0 - log_ratio] * length, [-1.0 - 2 * log_ratio] * length, [advantage] * length)
            for advantage in (0.0, 2.0, -2.0)
        ]
        inputs = inputs_of(rows, dtype=dtype)
        result = loss(inputs)
        assert result.terms.dtype == dtype
        assert bool(result.terms.isfinite().all()), result.terms
        (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
        assert bool(gradient.isfinite().all()), gradient
        assert gradient[:length].tolist() == [0.0] * length
        assert result.terms[: result.terms.shape[0] // 3].abs().sum().item() == 0.0
        for name, values_S in result.step_metrics.items():
            assert values_S.shape == inputs.log_probs_S.shape, name
            assert bool(values_S.isfinite().all()), (name, values_S)
            assert not values_S.requires_grad, name
