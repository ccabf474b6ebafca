from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.gspo import GSPO
from grpo_lightning.losses.gspo_token import GSPOToken
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(low: float, high: float) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            total = sum(lp.item() - old for lp, old in zip(row.lp, row.old, strict=True))
            s = math.exp(total / row.length)
            for lp, advantage in zip(row.lp, row.advantage, strict=True):
                ratio = s * (lp.exp() / lp.exp().detach())
                plain, clipped = ratio * advantage, min(max(s, 1 - low), 1 + high) * advantage
                found.append(-plain if plain.item() <= clipped else -clipped)
        return found

    return terms


@pytest.mark.parametrize(("low", "high"), [(3e-4, 4e-4), (0.2, 0.28), (0.0, 0.0)])
@pytest.mark.parametrize("per_step", [False, True])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, per_step: bool, data: Any) -> None:
    loss = GSPOToken(epsilon_low=low, epsilon_high=high)
    expect_formula(loss, data.draw(cases(per_step=per_step)), reference(low, high))


@pytest.mark.parametrize(("low", "high"), [(3e-4, 4e-4), (0.2, 0.28)])
@formula_cases
@given(rows=cases())
def test_is_gspo_where_a_row_has_one_advantage(low: float, high: float, rows: list[Row]) -> None:
    inputs = inputs_of(rows)
    whole = GSPO(epsilon_low=low, epsilon_high=high)(inputs).terms
    mean = inputs.mean_rows(GSPOToken(epsilon_low=low, epsilon_high=high)(inputs).terms)
    torch.testing.assert_close(mean, whole, rtol=1e-12, atol=0)
    (one,) = torch.autograd.grad(whole.sum(), inputs.log_probs_S)
    (other,) = torch.autograd.grad(mean.sum(), inputs.log_probs_S)
    torch.testing.assert_close(other, one, rtol=1e-12, atol=0)


def test_each_step_has_its_own_advantage_and_the_rows_ratio() -> None:
    # s = sqrt(4) = 2, bounds 0.5 and 1.5: only the positive advantage is clipped.
    rows = [Row(0, [math.log(4.0), 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, -1.0])]
    inputs = inputs_of(rows)
    result = GSPOToken(epsilon_low=0.5, epsilon_high=0.5)(inputs)
    torch.testing.assert_close(result.terms, torch.tensor([-1.5, 2.0], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    torch.testing.assert_close(gradient, torch.tensor([0.0, 2.0], dtype=torch.float64))
    assert result.step_metrics["clip_fraction_high"].tolist() == [1, 0]
    torch.testing.assert_close(result.step_metrics["sequence_ratio"], torch.tensor([2.0, 2.0], dtype=torch.float64))


def test_its_formula_holds_its_numbers() -> None:
    formula = GSPOToken().formula()
    assert formula.text == "l_it = -min(s_it A_it, clip(s_it, 0.9997, 1.0004) A_it)"
    assert set(formula.symbols) == {"s_it", "s_i"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(GSPOToken(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", -0.1), ("epsilon_low", 1.1), ("epsilon_high", -0.1), ("epsilon_high", math.inf)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GSPOToken(**{setting: value})
    assert error.value.setting == setting
