from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.dro import DROLoss
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of

MODES: list[dict[str, Any]] = [{}, {"beta": 2.0}, {"level": "sequence"}, {"level": "sequence", "beta": 0.01}]


def reference(loss: DROLoss) -> Any:
    def terms(rows: list[Row]) -> list[Any]:
        result: list[Any] = []
        for row in rows:
            parts = [(row.advantage[t], row.lp[t], row.lp[t] - row.old[t]) for t in range(row.length)]
            if loss.level == "sequence":
                log_prob, log_ratio = row.lp[0] * 0, row.lp[0] * 0
                for _, lp, moved in parts:
                    log_prob, log_ratio = log_prob + lp, log_ratio + moved
                parts = [(row.A, log_prob, log_ratio)]
            for advantage, lp, moved in parts:
                result.append(-(advantage * lp - loss.beta / 2 * moved**2))
        return result

    return terms


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(rows=cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], rows: list[Row]) -> None:
    loss = DROLoss(**options)
    expect_formula(loss, rows, reference(loss))


def gradient(loss: DROLoss, row: Row) -> list[float]:
    inputs = inputs_of([row])
    found: list[float] = torch.autograd.grad(loss(inputs).terms.sum(), inputs.log_probs_S)[0].tolist()
    return found


def test_by_hand() -> None:
    # log-ratios 1, -2, 0 with A = 2, 0, 3 and beta 4: -(2 (-1) - 2), 2 * 4, -3 (-3).
    row = Row(0, [-1.0, -5.0, -3.0], [-2.0, -3.0, -3.0], [-9.0] * 3, [2.0, 0.0, 3.0])
    loss = DROLoss(beta=4.0)
    assert loss.scope == "step"
    assert loss(inputs_of([row])).terms.tolist() == [4.0, 8.0, 9.0]
    assert gradient(loss, row) == [-2.0 + 4.0, -8.0, -3.0]
    assert loss.runs_silent, "a step of advantage 0 is pulled back"
    metrics = loss(inputs_of([row])).step_metrics
    torch.testing.assert_close(metrics["ratio"], torch.tensor([1.0, -2.0, 0.0], dtype=torch.float64).exp())
    assert not metrics["ratio"].requires_grad


def test_rows_by_hand() -> None:
    # Row 0: log pi -6, log-ratio -1, A = 3; row 1: one step, log-ratio 2, A = 0.
    rows = [
        Row(0, [-1.0, -5.0], [-2.0, -3.0], [-9.0] * 2, [3.0, 3.0]),
        Row(1, [-1.0], [-3.0], [-9.0], [0.0]),
    ]
    loss = DROLoss(beta=4.0, level="sequence")
    assert loss.scope == "sequence"
    inputs = inputs_of(rows)
    terms = loss(inputs).terms
    assert terms.tolist() == [18.0 + 2.0, 8.0]
    assert torch.autograd.grad(terms.sum(), inputs.log_probs_S)[0].tolist() == [-3.0 - 4.0, -3.0 - 4.0, 8.0]


def test_rows_of_one_step_have_both_levels_equal() -> None:
    rows = [Row(0, [-1.0], [-1.5], [-1.0], [2.0]), Row(0, [-4.0], [-3.0], [-1.0], [-1.0])]
    assert DROLoss()(inputs_of(rows)).terms.tolist() == DROLoss(level="sequence")(inputs_of(rows)).terms.tolist()


def test_a_step_stops_where_its_log_ratio_is_its_advantage_over_beta() -> None:
    assert gradient(DROLoss(beta=0.5), Row(0, [-1.0], [-3.0], [-1.0], [1.0])) == [0.0]


def test_the_old_policy_has_the_plain_policy_gradient() -> None:
    row = Row(0, [-1.0, -2.0], [-1.0, -2.0], [-7.0] * 2, [1.5, -0.5])
    assert gradient(DROLoss(), row) == [-1.5, 0.5]


@pytest.mark.parametrize("level", ["step", "sequence"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(level: Any, log_ratio: float, dtype: torch.dtype) -> None:
    inputs = inputs_of([Row(0, [-1.0] * 3, [-1.0 - log_ratio] * 3, [-1.0] * 3, [0.0, 1e6, -1e6])], dtype=dtype)
    result = DROLoss(level=level)(inputs)
    assert result.terms.dtype == dtype
    assert result.terms.isfinite().all()
    assert result.step_metrics["ratio"].isfinite().all()
    assert torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)[0].isfinite().all()


def test_formula_holds_its_numbers() -> None:
    assert DROLoss(beta=0.5).formula().text == "l_it = -(A_it log pi_theta - 0.25 (log pi_theta - log pi_old)^2)"
    row = DROLoss(beta=0.5, level="sequence").formula()
    assert row.text.startswith("l_i = ")
    assert "0.25" in row.latex


@pytest.mark.parametrize(("setting", "value"), [("beta", 0.0), ("beta", math.inf), ("level", "token")])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        DROLoss(**{setting: value})
    assert error.value.setting == setting
