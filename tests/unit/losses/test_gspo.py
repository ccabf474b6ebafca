from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.losses.gspo import GSPO
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(low: float, high: float) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            total = torch.zeros((), dtype=torch.float64)
            for lp, old in zip(row.lp, row.old, strict=True):
                total = total + (lp - old)
            s = (total / row.length).exp()
            plain, clipped = s * row.A, min(max(s.item(), 1 - low), 1 + high) * row.A
            found.append(-plain if plain.item() <= clipped else -clipped)
        return found

    return terms


@pytest.mark.parametrize(("low", "high"), [(3e-4, 4e-4), (0.2, 0.28), (0.0, 0.0), (1.0, 5.0)])
@pytest.mark.parametrize("per_step", [False, True])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, per_step: bool, data: Any) -> None:
    expect_formula(GSPO(epsilon_low=low, epsilon_high=high), data.draw(cases(per_step=per_step)), reference(low, high))


def test_by_hand() -> None:
    # Geometric means of the ratios: sqrt(2 * 1/2) = 1, sqrt(4) = 2 and 1/2. Clipped to [0.5, 1.5].
    two, half = math.log(2.0), math.log(0.5)
    rows = [
        Row(0, [two, half], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]),
        Row(0, [two + two, 0.0], [0.0, 0.0], [0.0, 0.0], [3.0, 3.0]),
        Row(1, [two + two, 0.0], [0.0, 0.0], [0.0, 0.0], [-3.0, -3.0]),
        Row(1, [half], [0.0], [0.0], [-1.0]),
    ]
    inputs = inputs_of(rows)
    result = GSPO(epsilon_low=0.4, epsilon_high=0.5)(inputs)
    torch.testing.assert_close(result.terms, torch.tensor([-1.0, -4.5, 6.0, 0.6], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    # -s A / l where nothing is clipped
    expected = torch.tensor([-0.5, -0.5, 0.0, 0.0, 3.0, 3.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected)
    assert result.step_metrics["clip_fraction_high"].tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert result.step_metrics["clip_fraction_low"].tolist() == [0, 0, 0, 0, 0, 0, 1]
    ratios = torch.tensor([1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(result.step_metrics["sequence_ratio"], ratios)


@formula_cases
@given(data=st.data())
def test_rows_of_one_step_are_clipped_steps(data: Any) -> None:
    rows = [Row(row.group, row.lp[:1], row.old[:1], row.mu[:1], row.advantage[:1]) for row in data.draw(cases())]
    inputs = inputs_of(rows)
    gspo = GSPO(epsilon_low=0.2, epsilon_high=0.2)(inputs).terms
    clipped = ClippedPolicyLoss()(inputs).terms
    torch.testing.assert_close(gspo, clipped)
    for one, other in zip(
        torch.autograd.grad(gspo.sum(), inputs.log_probs_S),
        torch.autograd.grad(clipped.sum(), inputs.log_probs_S),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_long_float32_rows_keep_their_digits() -> None:
    # 20,000 steps of log-ratio 1e-4 and advantage 0.1 each: both means stay what they are.
    rows = [Row(0, [1e-4] * 20_000, [0.0] * 20_000, [0.0] * 20_000, [0.1] * 20_000)]
    terms = GSPO()(inputs_of(rows, dtype=torch.float32)).terms
    torch.testing.assert_close(terms, torch.tensor([-0.1 * math.exp(1e-4)]), rtol=1.5e-7, atol=0)


def test_its_formula_holds_its_numbers() -> None:
    formula = GSPO().formula()
    assert formula.text == "l_i = -min(s_i A_i, clip(s_i, 0.9997, 1.0004) A_i)"
    assert "0.9997, 1.0004" in formula.latex
    assert "s_i" in formula.symbols


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(GSPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", -0.1), ("epsilon_low", 1.1), ("epsilon_high", -0.1), ("epsilon_high", math.inf)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GSPO(**{setting: value})
    assert error.value.setting == setting
