from __future__ import annotations

import pytest
import torch

from grpo_lightning.kl.base import KLInputs
from grpo_lightning.kl.exact import ExactKL
from helpers.five_words import expected, reverse_kl


def test_value_and_gradient_are_those_of_the_divergence() -> None:
    value, gradient = expected(ExactKL())
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, reverse_kl()[1])


def test_it_declares_what_it_needs_and_refuses_to_go_without() -> None:
    assert ExactKL.functionals == frozenset({"exact_kl"})
    with pytest.raises(ValueError, match="exact_kl"):
        ExactKL()(KLInputs(torch.zeros(1), torch.zeros(1), torch.zeros(1)))
