from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.errors import ConfigError
from grpo_lightning.kl.k2 import K2
from helpers.adversarial import Row, cases, formula_cases
from helpers.five_words import at, expected, reverse_kl
from helpers.kl_cases import expect_kl


def test_by_hand() -> None:
    assert at(K2(), 0.5) == (0.125, 0.5)
    assert at(K2(), -3.0) == (4.5, -3.0)
    assert at(K2(), 0.0) == (0.0, 0.0)


def test_value_is_biased_and_gradient_that_of_the_divergence() -> None:
    value, gradient = expected(K2())
    torch.testing.assert_close(gradient, reverse_kl()[1])
    assert (value - reverse_kl()[0]).abs() > 0.01


@pytest.mark.parametrize("limit", [None, 10.0])
@formula_cases
@given(rows=cases())
def test_equals_its_formula(limit: float | None, rows: list[Row]) -> None:
    def exact(d: Decimal, _: Decimal) -> tuple[Decimal, Decimal]:
        value = d * d / 2
        return (Decimal(limit), Decimal(0)) if limit is not None and value > limit else (value, d)

    expect_kl(K2(limit=limit), rows, exact)


def test_the_limit_by_hand() -> None:
    assert at(K2(limit=4.0), -3.0) == (4.0, 0.0)
    assert at(K2(limit=4.0), 2.0) == (2.0, 2.0)


def test_extremes_are_finite() -> None:
    assert at(K2(), 500.0, torch.float32) == (125000.0, 500.0)
    assert at(K2(), -500.0, torch.float32) == (125000.0, -500.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_wrong_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^limit: "):
        K2(limit=value)


def test_its_equation() -> None:
    assert K2().formula().text == "k_it = d_it^2 / 2"
    assert K2(limit=10.0).formula().text == "k_it = min(d_it^2 / 2, 10)"
