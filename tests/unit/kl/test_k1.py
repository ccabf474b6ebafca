from __future__ import annotations

from decimal import Decimal

import torch
from hypothesis import given

from grpo_lightning.kl.k1 import K1
from helpers.adversarial import Row, cases, formula_cases
from helpers.five_words import ZERO, at, expected, reverse_kl
from helpers.kl_cases import expect_kl


def test_by_hand() -> None:
    assert at(K1(), 0.5) == (0.5, 1.0)
    assert at(K1(), -3.0) == (-3.0, 1.0)


def test_value_is_unbiased_and_gradient_is_zero_on_average() -> None:
    value, gradient = expected(K1())
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, ZERO)


@formula_cases
@given(rows=cases())
def test_equals_its_formula(rows: list[Row]) -> None:
    expect_kl(K1(), rows, lambda d, _: (d, Decimal(1)))


def test_extremes_are_finite() -> None:
    assert at(K1(), 500.0, torch.float32) == (500.0, 1.0)
    assert at(K1(), -500.0, torch.float32) == (-500.0, 1.0)


def test_its_equation() -> None:
    assert K1().formula().text == "k_it = d_it"
