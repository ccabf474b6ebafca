from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.aggregations.base import UpdateRows
from grpo_lightning.aggregations.token_mean import TokenMean
from grpo_lightning.losses.reinforce import Reinforce
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(rows: list[Row]) -> list[Any]:
    return [-advantage * lp for row in rows for lp, advantage in zip(row.lp, row.advantage, strict=True)]


@pytest.mark.parametrize("per_step", [False, True])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(per_step: bool, data: Any) -> None:
    expect_formula(Reinforce(), data.draw(cases(per_step=per_step)), reference)


@formula_cases
@given(rows=cases())
def test_under_the_mean_over_steps_it_is_the_loss_of_gpg(rows: list[Row]) -> None:
    inputs = inputs_of(rows)
    weights_R = TokenMean().step_weights(UpdateRows(inputs.lengths_R, inputs.group_R))
    loss = (Reinforce()(inputs).terms * weights_R[inputs.row_S]).sum()
    (gradient,) = torch.autograd.grad(loss, inputs.log_probs_S)
    steps = sum(row.length for row in rows)
    expected = -sum(advantage * lp for row in rows for lp, advantage in zip(row.lp, row.advantage, strict=True)) / steps
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=1e-12 * max(abs(row.A) for row in rows))
    slopes = [-advantage / steps for row in rows for advantage in row.advantage]
    torch.testing.assert_close(gradient, torch.tensor(slopes, dtype=torch.float64))


def test_by_hand() -> None:
    inputs = inputs_of([Row(0, [-0.5, -2.0], [-9.0, -9.0], [-9.0, -9.0], [1.0, -3.0])])
    result = Reinforce()(inputs)
    assert result.terms.tolist() == [0.5, -6.0]
    assert torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)[0].tolist() == [-1.0, 3.0]
    assert result.step_metrics == {}


def test_its_formula() -> None:
    assert Reinforce().formula().text == "l_it = -A_it log pi_theta(it)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(Reinforce(), log_ratio, dtype)
