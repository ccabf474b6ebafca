from __future__ import annotations

import math
from decimal import Decimal, getcontext
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.errors import ConfigError
from grpo_lightning.kl.k3 import K3
from helpers.adversarial import Row, cases, formula_cases
from helpers.five_words import at, expected, forward_kl, reverse_kl
from helpers.kl_cases import expect_kl


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


@pytest.mark.parametrize(("log_ratio_limit", "limit"), [(None, None), (5.0, None), (None, 10.0), (20.0, 10.0)])
@formula_cases
@given(rows=cases())
def test_equals_its_formula(log_ratio_limit: float | None, limit: float | None, rows: list[Row]) -> None:
    def exact(d: Decimal, _: Decimal) -> tuple[Decimal, Decimal]:
        slope = Decimal(1)
        if log_ratio_limit is not None and abs(d) > log_ratio_limit:
            d, slope = d.copy_sign(d) / abs(d) * Decimal(log_ratio_limit), Decimal(0)
        value = (-d).exp() - 1 + d
        if limit is not None and value > limit:
            return Decimal(limit), Decimal(0)
        return value, slope * (1 - (-d).exp())

    # expm1 is right to half a unit of its own last place, which is of size d, and the sum is of size d^2 / 2.
    expect_kl(K3(log_ratio_limit=log_ratio_limit, limit=limit), rows, exact, absolute=4 * 2.0**-52)


def test_limits_by_hand() -> None:
    # exp(3) - 1 - 3 = 16.0855
    assert at(K3(), -3.0) == pytest.approx((16.085536923187668, 1 - math.exp(3)))
    assert at(K3(limit=10.0), -3.0) == (10.0, 0.0)
    assert at(K3(log_ratio_limit=1.0), -3.0) == pytest.approx((math.e - 2, 0.0))
    assert at(K3(log_ratio_limit=1.0), 3.0) == pytest.approx((math.exp(-1), 0.0))
    assert at(K3(log_ratio_limit=20.0, limit=10.0), -1.0) == pytest.approx((math.e - 2, 1 - math.e))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extremes_are_finite(dtype: torch.dtype) -> None:
    assert at(K3(), 500.0, dtype) == (499.0, 1.0)
    value, gradient = at(K3(), -500.0, dtype)
    assert math.isfinite(value)
    assert value > 1e17
    assert math.isfinite(gradient)
    assert gradient < -1e17
    assert at(K3(log_ratio_limit=20.0, limit=10.0), -500.0, dtype) == (10.0, 0.0)


@pytest.mark.parametrize("setting", ["log_ratio_limit", "limit"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        K3(**{setting: value})
    assert error.value.setting == setting


def test_its_equation() -> None:
    assert K3().formula().text == "k_it = exp(-d_it) - 1 + d_it"
    limited = K3(log_ratio_limit=20.0, limit=10.0).formula()
    assert limited.text == "k_it = min(exp(-d_it) - 1 + d_it, 10)"
    assert limited.symbols["d_it"] == "clip(log pi_theta - log pi_ref, -20, 20)"
