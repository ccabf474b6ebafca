from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.rollout_is import RolloutIS
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(low: float, high: float) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            for lp, mu, advantage in zip(row.lp, row.mu, row.advantage, strict=True):
                ratio = math.exp(lp.item() - mu)
                found.append(-(ratio if 1 - low < ratio < 1 + high else 0.0) * advantage * lp)
        return found

    return terms


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (1.0, 1e6), (0.5, 4.0)])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, data: Any) -> None:
    loss = RolloutIS(epsilon_low=low, epsilon_high=high)
    expect_formula(loss, data.draw(cases(per_step=True)), reference(low, high))


def test_outside_the_range_and_on_its_bounds_there_is_nothing() -> None:
    # Ratios 1/2, 1, 3/2 and 2 with bounds 1/2 and 3/2, for both signs.
    logs = [math.log(0.5), 0.0, math.log(1.5), math.log(2.0), math.log(1.25)]
    for advantage in (2.0, -2.0):
        inputs = inputs_of([Row(0, [-1.0] * 5, [7.0] * 5, [-1.0 - each for each in logs], [advantage] * 5)])
        ratios = (inputs.log_probs_S.detach() - inputs.behaviour_log_probs_S).exp()
        low, high = 1 - ratios[0].item(), ratios[2].item() - 1
        result = RolloutIS(epsilon_low=low, epsilon_high=high)(inputs)
        expected = torch.tensor([0.0, advantage, 0.0, 0.0, 1.25 * advantage], dtype=torch.float64)
        torch.testing.assert_close(result.terms, expected)
        (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
        torch.testing.assert_close(gradient, -expected)
        assert result.step_metrics["masked_fraction"].tolist() == [1, 0, 1, 1, 0]
        torch.testing.assert_close(result.step_metrics["behaviour_ratio"], ratios)


def test_it_weighs_the_sampler_itself() -> None:
    assert RolloutIS.weighs_sampler


def test_its_formula_holds_its_numbers() -> None:
    formula = RolloutIS(epsilon_high=0.28).formula()
    assert formula.text == "l_it = -sg[rho_mu(it) 1(0.8 < rho_mu(it) < 1.28)] A_it log pi_theta(it)"
    assert "mu" in formula.symbols


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(RolloutIS(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", 0.0), ("epsilon_low", 1.1), ("epsilon_high", 0.0), ("epsilon_high", math.inf)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        RolloutIS(**{setting: value})
    assert error.value.setting == setting
