from __future__ import annotations

import torch

from grpo_lightning.kl.k2 import K2
from helpers.five_words import at, expected, reverse_kl


def test_by_hand() -> None:
    assert at(K2(), 0.5) == (0.125, 0.5)
    assert at(K2(), -3.0) == (4.5, -3.0)
    assert at(K2(), 0.0) == (0.0, 0.0)


def test_value_is_biased_and_gradient_that_of_the_divergence() -> None:
    value, gradient = expected(K2())
    torch.testing.assert_close(gradient, reverse_kl()[1])
    assert (value - reverse_kl()[0]).abs() > 0.01
