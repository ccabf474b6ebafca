from __future__ import annotations

import torch

from grpo_lightning.kl.absolute import AbsoluteKL
from helpers.five_words import at, expected, reverse_kl, total_variation


def test_by_hand() -> None:
    assert at(AbsoluteKL(), 0.5) == (0.5, 1.0)
    assert at(AbsoluteKL(), -3.0) == (3.0, -1.0)
    assert at(AbsoluteKL(), 0.0) == (0.0, 0.0)


def test_gradient_is_twice_that_of_the_total_variation() -> None:
    value, gradient = expected(AbsoluteKL())
    torch.testing.assert_close(gradient, 2 * total_variation()[1])
    assert value > reverse_kl()[0], "it is no estimate of the divergence"
