from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.cispo import CISPO
from grpo_lightning.losses.reinforce import Reinforce
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(low: float, high: float) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            for lp, old, advantage in zip(row.lp, row.old, row.advantage, strict=True):
                weight = min(max(math.exp(lp.item() - old), 1 - low), 1 + high)
                found.append(-weight * advantage * lp)
        return found

    return terms


@pytest.mark.parametrize(("low", "high"), [(1.0, 4.0), (0.2, 0.28), (10.0, 0.2), (0.0, 0.0)])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, data: Any) -> None:
    loss = CISPO(epsilon_low=low, epsilon_high=high)
    expect_formula(loss, data.draw(cases(per_step=True)), reference(low, high))


@formula_cases
@given(data=st.data())
def test_on_policy_it_is_reinforce(data: Any) -> None:
    rows = [Row(row.group, row.lp, row.lp, row.mu, row.advantage) for row in data.draw(cases(per_step=True))]
    inputs = inputs_of(rows)
    cispo, plain = CISPO()(inputs).terms, Reinforce()(inputs).terms
    assert cispo.tolist() == plain.tolist()
    (one,) = torch.autograd.grad(cispo.sum(), inputs.log_probs_S)
    (other,) = torch.autograd.grad(plain.sum(), inputs.log_probs_S)
    assert one.tolist() == other.tolist()


def test_a_clipped_step_keeps_its_gradient() -> None:
    # Ratios 8, 2 and 1/4 with bounds 0.5 and 3.
    rows = [Row(0, [-1.0, -1.0, -3.0], [-1.0 - math.log(8.0), -1.0 - math.log(2.0), -3.0 + math.log(4.0)],
                [-1.0] * 3, [1.0, -1.0, 2.0])]  # fmt: skip
    inputs = inputs_of(rows)
    result = CISPO(epsilon_low=0.5, epsilon_high=2.0)(inputs)
    torch.testing.assert_close(result.terms, torch.tensor([3.0, -2.0, 3.0], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    torch.testing.assert_close(gradient, torch.tensor([-3.0, 2.0, -1.0], dtype=torch.float64))
    metrics = result.step_metrics
    assert metrics["clip_fraction_high"].tolist() == [1, 0, 0]
    assert metrics["clip_fraction_low"].tolist() == [0, 0, 1]
    torch.testing.assert_close(metrics["weight"], torch.tensor([3.0, 2.0, 0.5], dtype=torch.float64))
    torch.testing.assert_close(metrics["ratio"], torch.tensor([8.0, 2.0, 0.25], dtype=torch.float64))


def test_its_formula_holds_its_numbers() -> None:
    assert CISPO().formula().text == "l_it = -sg[clip(rho_it, 0, 5)] A_it log pi_theta(it)"
    assert "0.5, 1.28" in CISPO(epsilon_low=0.5, epsilon_high=0.28).formula().latex


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(CISPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", -0.1), ("epsilon_high", -0.2), ("epsilon_high", math.inf)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        CISPO(**{setting: value})
    assert error.value.setting == setting
