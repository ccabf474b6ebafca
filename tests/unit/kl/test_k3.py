from __future__ import annotations

import math
from decimal import Decimal, getcontext

import pytest
import torch

from grpo_lightning.kl.k3 import K3
from helpers.five_words import at, expected, forward_kl, reverse_kl


def test_by_hand() -> None:
    assert at(K3(), math.log(2)) == pytest.approx((0.5 - 1 + math.log(2), 0.5))
    assert at(K3(), -math.log(2)) == pytest.approx((2 - 1 - math.log(2), -1.0))


def test_it_is_exactly_zero_without_gradient_where_the_policies_agree() -> None:
    for dtype in (torch.float32, torch.float64):
        assert at(K3(), 0.0, dtype) == (0.0, 0.0)


def test_value_is_unbiased_and_gradient_that_of_the_forward_divergence() -> None:
    value, gradient = expected(K3())
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, forward_kl()[1])
    assert (gradient - reverse_kl()[1]).norm() > 0.1, "the two directions differ here"


@pytest.mark.parametrize("difference", [1e-3, -1e-3, 1e-4, -1e-4, 1e-5, 0.5, -2.0, 20.0, -20.0])
def test_digits_at_small_differences(difference: float) -> None:
    getcontext().prec = 50
    exact = float((-Decimal(difference)).exp() - 1 + Decimal(difference))
    assert at(K3(), difference)[0] == pytest.approx(exact, rel=1e-10)
    single = torch.tensor(difference, dtype=torch.float32).item()
    exact = float((-Decimal(single)).exp() - 1 + Decimal(single))
    assert at(K3(), difference, torch.float32)[0] == pytest.approx(exact, rel=0.02)


def test_the_plain_form_has_no_digits_there() -> None:
    d = torch.tensor(1e-5)
    assert (torch.exp(-d) - 1 + d).item() != pytest.approx(5e-11, rel=0.5)
