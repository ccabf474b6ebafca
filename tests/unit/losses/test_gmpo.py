from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.gmpo import GMPO
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(low: float, high: float) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            sign = (row.A > 0) - (row.A < 0)
            total = torch.zeros((), dtype=torch.float64)
            for lp, old in zip(row.lp, row.old, strict=True):
                plain = sign * (lp - old)
                clipped = sign * min(max(lp.item() - old, -low), high)
                total = total + sign * (plain if plain.item() <= clipped else clipped)
            found.append(-row.A * (total / row.length).exp())
        return found

    return terms


@pytest.mark.parametrize(("low", "high"), [(0.4, 0.4), (0.1, 2.0), (0.0, 0.0)])
@pytest.mark.parametrize("per_step", [False, True])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, per_step: bool, data: Any) -> None:
    loss = GMPO(epsilon_low=low, epsilon_high=high)
    expect_formula(loss, data.draw(cases(per_step=per_step)), reference(low, high))


def test_rows_of_one_step_are_clipped_in_the_log_ratio() -> None:
    # -A min(rho, e^0.4) for A > 0, -A max(rho, e^-0.4) for A < 0.
    ratios = [0.5, 1.0, 1.4, 2.0]
    for advantage in (2.0, -2.0):
        rows = [Row(0, [math.log(ratio)], [0.0], [0.0], [advantage]) for ratio in ratios]
        inputs = inputs_of(rows)
        terms = GMPO()(inputs).terms
        bound = math.exp(0.4) if advantage > 0 else math.exp(-0.4)
        limited = [min(ratio, bound) if advantage > 0 else max(ratio, bound) for ratio in ratios]
        torch.testing.assert_close(terms, torch.tensor([-advantage * each for each in limited], dtype=torch.float64))
        (gradient,) = torch.autograd.grad(terms.sum(), inputs.log_probs_S)
        slopes = [-advantage * one if one == other else 0.0 for one, other in zip(limited, ratios, strict=True)]
        torch.testing.assert_close(gradient, torch.tensor(slopes, dtype=torch.float64))


def test_by_hand() -> None:
    # Log-ratios 0.9 (clipped to 0.4), -0.2 and 0.1: their mean is 0.1.
    inputs = inputs_of([Row(0, [0.9, -0.2, 0.1], [0.0] * 3, [0.0] * 3, [3.0] * 3)])
    result = GMPO()(inputs)
    assert result.terms.item() == pytest.approx(-3 * math.exp(0.1))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    slope = -math.exp(0.1)
    torch.testing.assert_close(gradient, torch.tensor([0.0, slope, slope], dtype=torch.float64))
    assert result.step_metrics["clip_fraction_high"].tolist() == [1, 0, 0]
    assert result.step_metrics["clip_fraction_low"].tolist() == [0, 0, 0]
    torch.testing.assert_close(result.step_metrics["sequence_ratio"], torch.full((3,), math.exp(0.1)).double())
    torch.testing.assert_close(result.step_metrics["ratio"], torch.tensor([0.9, -0.2, 0.1]).double().exp())


def test_its_formula_holds_its_numbers() -> None:
    formula = GMPO(epsilon_high=0.5).formula()
    assert "min(log rho_it, 0.5) where A_i > 0 and max(log rho_it, -0.4) where A_i < 0" in formula.text
    assert r"\min(\log \rho_{i,t}, 0.5)" in formula.latex


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(GMPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", -0.1), ("epsilon_high", -0.1), ("epsilon_high", math.inf)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GMPO(**{setting: value})
    assert error.value.setting == setting


def test_a_row_of_advantage_zero_is_not_counted_as_clipped() -> None:
    result = GMPO()(inputs_of([Row(0, [0.9, -0.9], [0.0] * 2, [0.0] * 2, [0.0] * 2)]))
    assert result.terms.tolist() == [0.0]
    assert result.step_metrics["clip_fraction_low"].tolist() == [0, 0]
    assert result.step_metrics["clip_fraction_high"].tolist() == [0, 0]
