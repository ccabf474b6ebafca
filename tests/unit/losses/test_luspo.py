from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.gspo import GSPO
from grpo_lightning.losses.luspo import LUSPO
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
            found.append(row.length * (-plain if plain.item() <= clipped else -clipped))
        return found

    return terms


@pytest.mark.parametrize(("low", "high"), [(2e-3, 2.5e-3), (0.2, 0.28)])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, data: Any) -> None:
    loss = LUSPO(epsilon_low=low, epsilon_high=high)
    expect_formula(loss, data.draw(cases(per_step=True)), reference(low, high))


@formula_cases
@given(rows=cases())
def test_is_gspo_times_the_length(rows: list[Row]) -> None:
    inputs = inputs_of(rows)
    luspo = LUSPO(epsilon_low=0.1, epsilon_high=0.2)(inputs).terms
    gspo = GSPO(epsilon_low=0.1, epsilon_high=0.2)(inputs).terms
    lengths_R = torch.tensor([float(row.length) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(luspo, lengths_R * gspo, rtol=1e-14, atol=0)
    (one,) = torch.autograd.grad(luspo.sum(), inputs.log_probs_S)
    (other,) = torch.autograd.grad(gspo.sum(), inputs.log_probs_S)
    torch.testing.assert_close(one, other * lengths_R[inputs.row_S], rtol=1e-14, atol=0)


def test_a_step_weighs_the_same_in_a_short_and_in_a_long_row() -> None:
    rows = [Row(0, [-1.0] * length, [-1.0] * length, [-1.0] * length, [2.0] * length) for length in (1, 5)]
    inputs = inputs_of(rows)
    terms = LUSPO()(inputs).terms
    assert terms.tolist() == [-2.0, -10.0]
    (gradient,) = torch.autograd.grad(terms.sum(), inputs.log_probs_S)
    torch.testing.assert_close(gradient, torch.full((6,), -2.0, dtype=torch.float64))


def test_only_the_mean_over_rows_is_legal() -> None:
    assert LUSPO.aggregations == {"sequence_mean_token_mean"}
    assert "twice" in LUSPO.why_aggregations


def test_its_formula_holds_its_numbers() -> None:
    formula = LUSPO().formula()
    assert formula.text == "l_i = -|i| min(s_i A_i, clip(s_i, 0.998, 1.0025) A_i)"
    assert set(formula.symbols) == {"|i|", "s_i"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(LUSPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", -0.1), ("epsilon_high", math.nan)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        LUSPO(**{setting: value})
    assert error.value.setting == setting
