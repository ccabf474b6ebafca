from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.sapo import SAPO
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(positive: float, negative: float) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            for lp, old, advantage in zip(row.lp, row.old, row.advantage, strict=True):
                tau = positive if advantage > 0 else negative
                gate = 1 / (1 + (-tau * ((lp - old).exp() - 1)).exp())
                found.append(-4 / tau * gate * advantage)
        return found

    return terms


@pytest.mark.parametrize(("positive", "negative"), [(1.0, 1.05), (0.3, 2.0)])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(positive: float, negative: float, data: Any) -> None:
    loss = SAPO(tau_positive=positive, tau_negative=negative)
    expect_formula(loss, data.draw(cases(per_step=True)), reference(positive, negative))


@pytest.mark.parametrize("advantage", [1.0, -1.0, 2.5, -1e6, 1e-6])
def test_at_ratio_one_the_gradient_weight_is_one_and_the_value_is_two_over_tau(advantage: float) -> None:
    inputs = inputs_of([Row(0, [-0.7], [-0.7], [-0.7], [advantage])])
    result = SAPO(tau_positive=0.5, tau_negative=4.0)(inputs)
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    assert gradient.item() == pytest.approx(-advantage, rel=1e-15)
    assert result.terms.item() == pytest.approx(-2 * advantage / (0.5 if advantage > 0 else 4.0), rel=1e-15)
    assert result.step_metrics["gate"].item() == pytest.approx(1.0, rel=1e-15)
    assert result.step_metrics["ratio"].item() == 1.0


def test_by_hand() -> None:
    # ratio 3, tau 1: p = sigmoid(2) = 0.8807970779778823, 4 p (1 - p) = 0.4199743416140260, times 3.
    inputs = inputs_of([Row(0, [math.log(3.0)], [0.0], [0.0], [1.0])])
    result = SAPO()(inputs)
    assert result.terms.item() == pytest.approx(-4 * 0.8807970779778823)
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    assert gradient.item() == pytest.approx(-3 * 0.4199743416140260)
    assert result.step_metrics["gate"].item() == pytest.approx(0.4199743416140260)


def test_the_gradient_far_out_keeps_its_digits_in_float32() -> None:
    # ratio 20: 1 - p = exp(-19) / (1 + exp(-19)), of which sigmoid's own gradient has no digit in float32.
    inputs = inputs_of([Row(0, [math.log(20.0)], [0.0], [0.0], [1.0])], dtype=torch.float32)
    (gradient,) = torch.autograd.grad(SAPO()(inputs).terms.sum(), inputs.log_probs_S)
    assert gradient.item() == pytest.approx(-4 * 20 * math.exp(-19) / (1 + math.exp(-19)) ** 2, rel=1e-4)


def test_its_formula_holds_its_numbers() -> None:
    formula = SAPO(tau_negative=1.5).formula()
    assert formula.text == (
        "l_it = -(4 / tau_it) sigmoid(tau_it (rho_it - 1)) A_it, tau_it = 1 where A_it > 0 and 1.5 elsewhere"
    )
    assert r"1.5 & A_{i,t} \le 0" in formula.latex


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(SAPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tau_positive", 0.0), ("tau_negative", -1.0), ("tau_negative", math.inf)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        SAPO(**{setting: value})
    assert error.value.setting == setting
