from __future__ import annotations

import torch
from hypothesis import given

from grpo_lightning.kl.k3_plus import K3Plus
from helpers.adversarial import Row, cases, formula_cases
from helpers.five_words import at, expected, reverse_kl
from helpers.kl_cases import expect_kl


@formula_cases
@given(rows=cases())
def test_equals_its_formula(rows: list[Row]) -> None:
    expect_kl(K3Plus(), rows, lambda d, _: ((-d).exp() - 1 + d, d), absolute=1e-15)


def test_value_is_unbiased_and_gradient_that_of_the_divergence() -> None:
    value, gradient = expected(K3Plus())
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, reverse_kl()[1])


def test_by_hand() -> None:
    value, slope = at(K3Plus(), -1.0)
    assert abs(value - (2.718281828459045 - 2)) < 1e-15
    assert slope == -1.0
    assert at(K3Plus(), 0.0) == (0.0, 0.0)


def test_extremes_are_finite() -> None:
    for far in (-500.0, 500.0):
        value, slope = at(K3Plus(), far, torch.float32)
        assert torch.isfinite(torch.tensor(value))
        assert slope == far


def test_its_equation() -> None:
    assert K3Plus().formula().text == "k_it = sg[exp(-d_it) - 1 + d_it] + d_it^2 / 2 - sg[d_it^2 / 2]"
