from __future__ import annotations

import torch

from grpo_lightning.kl.k1 import K1
from helpers.five_words import ZERO, at, expected, reverse_kl


def test_by_hand() -> None:
    assert at(K1(), 0.5) == (0.5, 1.0)
    assert at(K1(), -3.0) == (-3.0, 1.0)


def test_value_is_unbiased_and_gradient_is_zero_on_average() -> None:
    value, gradient = expected(K1())
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, ZERO)
