from __future__ import annotations

import torch
from hypothesis import given

from grpo_lightning.kl.absolute import AbsoluteKL
from helpers.adversarial import Row, cases, formula_cases
from helpers.five_words import at, expected, reverse_kl, total_variation
from helpers.kl_cases import expect_kl


def test_by_hand() -> None:
    assert at(AbsoluteKL(), 0.5) == (0.5, 1.0)
    assert at(AbsoluteKL(), -3.0) == (3.0, -1.0)
    assert at(AbsoluteKL(), 0.0) == (0.0, 0.0)


def test_gradient_is_twice_that_of_the_total_variation() -> None:
    value, gradient = expected(AbsoluteKL())
    torch.testing.assert_close(gradient, 2 * total_variation()[1])
    assert value > reverse_kl()[0], "it is no estimate of the divergence"


@formula_cases
@given(rows=cases())
def test_equals_its_formula(rows: list[Row]) -> None:
    # At d = 0 the derivative is taken as 0, the middle of what it could be.
    expect_kl(AbsoluteKL(), rows, lambda d, _: (abs(d), d.copy_abs() / d if d else d))


def test_extremes_are_finite() -> None:
    assert at(AbsoluteKL(), 500.0, torch.float32) == (500.0, 1.0)
    assert at(AbsoluteKL(), -500.0, torch.float32) == (500.0, -1.0)


def test_its_equation() -> None:
    assert AbsoluteKL().formula().text == "k_it = |d_it|"
