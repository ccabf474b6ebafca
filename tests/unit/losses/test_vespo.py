from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.reinforce import Reinforce
from grpo_lightning.losses.vespo import VESPO
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(positive: tuple[float, float], negative: tuple[float, float]) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            log_w = sum(lp.item() - mu for lp, mu in zip(row.lp, row.mu, strict=True))
            for lp, advantage in zip(row.lp, row.advantage, strict=True):
                k, rate = positive if advantage >= 0 else negative
                phi = math.exp(rate + k * log_w - rate * math.exp(log_w))
                found.append(-phi * advantage * lp)
        return found

    return terms


@pytest.mark.parametrize(("positive", "negative"), [((2.0, 3.0), (3.0, 2.0)), ((1.0, 0.1), (0.5, 4.0))])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(positive: tuple[float, float], negative: tuple[float, float], data: Any) -> None:
    loss = VESPO(
        k_positive=positive[0], lambda_positive=positive[1], k_negative=negative[0], lambda_negative=negative[1]
    )
    expect_formula(loss, data.draw(cases(per_step=True)), reference(positive, negative))


@formula_cases
@given(rows=cases(per_step=True))
def test_where_the_sampler_is_the_policy_the_weight_is_one(rows: list[Row]) -> None:
    for row in rows:
        row.mu = row.lp
    inputs = inputs_of(rows)
    result = VESPO()(inputs)
    assert set(result.step_metrics["weight"].tolist()) == {1.0}
    assert result.terms.tolist() == Reinforce()(inputs).terms.tolist()


def test_by_hand() -> None:
    # w = 2 * 1/4 = 1/2. A > 0: (1/2)^2 e^(3/2); A < 0: (1/2)^3 e.
    mu = [-1.0 - math.log(2.0), -2.0 + math.log(4.0)]
    inputs = inputs_of([Row(0, [-1.0, -2.0], [7.0, 7.0], mu, [1.0, -1.0])])
    result = VESPO()(inputs)
    plus, minus = 0.25 * math.exp(1.5), 0.125 * math.e
    torch.testing.assert_close(result.terms, torch.tensor([plus, -2 * minus], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    torch.testing.assert_close(gradient, torch.tensor([-plus, minus], dtype=torch.float64))
    torch.testing.assert_close(result.step_metrics["weight"], torch.tensor([plus, minus], dtype=torch.float64))


@pytest.mark.parametrize("log_ratio", [-1000.0, 800.0])
def test_both_limits_are_zero(log_ratio: float) -> None:
    inputs = inputs_of([Row(0, [-1.0], [0.0], [-1.0 - log_ratio], [advantage]) for advantage in (1.0, -1.0)])
    assert VESPO()(inputs).terms.abs().tolist() == [0.0, 0.0]


def test_it_weighs_the_sampler_itself() -> None:
    assert VESPO.weighs_sampler


def test_its_formula_holds_its_numbers() -> None:
    formula = VESPO().formula()
    assert formula.text.endswith("(k, lambda) = (2, 3) where A_it >= 0 and (3, 2) where A_it < 0")
    assert r"(3, 2) & A_{i,t} < 0" in formula.latex


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(VESPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("k_positive", 0.0), ("lambda_positive", -1.0), ("k_negative", math.inf), ("lambda_negative", 0.0)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        VESPO(**{setting: value})
    assert error.value.setting == setting
