from __future__ import annotations

import math
from decimal import Decimal

import pytest
import torch
from hypothesis import given

from grpo_lightning.kl.base import KLInputs
from grpo_lightning.kl.k3 import K3
from grpo_lightning.kl.k3_unbiased import UnbiasedK3
from helpers.adversarial import Row, cases, formula_cases
from helpers.five_words import LOGITS, OLD, REFERENCE, expected, forward_kl, reverse_kl
from helpers.kl_cases import expect_kl


def test_by_hand() -> None:
    # ratio 1/2 to the old policy, d = log 2
    log_probs = torch.tensor([math.log(0.25)], dtype=torch.float64)
    old, reference = torch.tensor([math.log(0.5)]).double(), torch.tensor([math.log(0.125)]).double()
    value = UnbiasedK3()(KLInputs(log_probs, reference, old))
    assert value.item() == pytest.approx(0.5 * (0.5 - 1 + math.log(2)), rel=1e-6)


@pytest.mark.parametrize("sampled_from_old", [False, True])
def test_value_and_gradient_are_those_of_the_divergence_on_and_off_policy(sampled_from_old: bool) -> None:
    value, gradient = expected(UnbiasedK3(), sampled_from_old=sampled_from_old)
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, reverse_kl()[1])


def test_a_constant_ratio_would_give_the_forward_direction() -> None:
    logits = LOGITS.clone().requires_grad_()
    log_probs = logits.log_softmax(0)
    weighted = (log_probs - OLD).exp().detach() * K3()(KLInputs(log_probs, REFERENCE, OLD))
    gradient = torch.autograd.grad((OLD.exp() * weighted).sum(), logits)[0]
    torch.testing.assert_close(gradient, forward_kl()[1])


@formula_cases
@given(rows=cases())
def test_equals_its_formula(rows: list[Row]) -> None:
    def exact(d: Decimal, log_ratio: Decimal) -> tuple[Decimal, Decimal]:
        ratio, value, slope = log_ratio.exp(), (-d).exp() - 1 + d, 1 - (-d).exp()
        return ratio * value, ratio * (value + slope)

    # The rounding of k3, see there, times the ratio.
    expect_kl(UnbiasedK3(), rows, exact, absolute=4 * 2.0**-52)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, 500.0])
@pytest.mark.parametrize("difference", [-500.0, 500.0])
def test_extremes_are_finite(difference: float, log_ratio: float, dtype: torch.dtype) -> None:
    now = torch.zeros(1, dtype=dtype, requires_grad=True)
    value = UnbiasedK3()(KLInputs(now, now.detach() - difference, now.detach() - log_ratio))
    gradient = torch.autograd.grad(value, now)[0]
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()


def test_its_equation() -> None:
    assert UnbiasedK3().formula().text == "k_it = rho_it (exp(-d_it) - 1 + d_it)"
