from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.corrections.base import CorrectionInputs
from grpo_lightning.corrections.truncated_importance import TruncatedImportance
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases
from helpers.correction_cases import expect_weights, no_steps, ratio_rows


def inputs(ratios: list[list[float]], dtype: torch.dtype = torch.float64) -> CorrectionInputs:
    """Rows of steps with ``pi_old / mu`` as given."""
    flat = torch.tensor([math.log(ratio) for row in ratios for ratio in row], dtype=dtype)
    lengths = torch.tensor([len(row) for row in ratios])
    behaviour = torch.linspace(-3, -1, len(flat), dtype=dtype)
    return CorrectionInputs(
        old_log_probs_S=behaviour + flat,
        behaviour_log_probs_S=behaviour,
        row_S=torch.repeat_interleave(torch.arange(len(ratios)), lengths),
        lengths_R=lengths,
    )


def test_steps_by_hand() -> None:
    weights = TruncatedImportance()(inputs([[0.5, 1.0, 3.0], [2.0, 1.5]]))
    torch.testing.assert_close(weights, torch.tensor([0.5, 1.0, 2.0, 2.0, 1.5], dtype=torch.float64))


def test_rows_by_hand() -> None:
    # Products: 3/4 and 3, the latter capped at 2.
    weights = TruncatedImportance(level="sequence")(inputs([[0.5, 1.0, 1.5], [2.0, 1.5]]))
    torch.testing.assert_close(weights, torch.tensor([0.75, 0.75, 0.75, 2.0, 2.0], dtype=torch.float64))


@pytest.mark.parametrize("level", ["step", "sequence"])
def test_policies_that_agree_have_weight_exactly_one(level: Any) -> None:
    log_probs = torch.tensor([-0.3, -7.1, -0.3, -2.0])
    rows, lengths = torch.tensor([0, 0, 1, 2]), torch.tensor([2, 1, 1])
    weights = TruncatedImportance(cap=1.0, level=level)(CorrectionInputs(log_probs, log_probs, rows, lengths))
    assert weights.tolist() == [1.0] * 4
    assert weights.dtype == torch.float32


@pytest.mark.parametrize("level", ["step", "sequence"])
@pytest.mark.parametrize("log_ratio", [-500.0, 500.0])
def test_extreme_ratios_are_capped_and_finite(level: Any, log_ratio: float) -> None:
    old, behaviour = torch.tensor([log_ratio, log_ratio]), torch.zeros(2)
    given = CorrectionInputs(old, behaviour, torch.zeros(2, dtype=torch.int64), torch.tensor([2]))
    assert TruncatedImportance(level=level)(given).tolist() == [2.0 if log_ratio > 0 else 0.0] * 2


def test_weights_carry_no_gradient() -> None:
    given = inputs([[1.0, 2.0]])
    given.old_log_probs_S.requires_grad_()
    assert not TruncatedImportance()(given).requires_grad


def test_no_steps() -> None:
    empty = torch.zeros(0)
    nothing = CorrectionInputs(empty, empty, empty.long(), empty.long())
    for level in ("step", "sequence"):
        assert TruncatedImportance(level=level)(nothing).shape == (0,)


@pytest.mark.parametrize(
    ("setting", "value"), [("cap", 0.5), ("cap", math.inf), ("level", "token"), ("floor", -0.1), ("floor", 1.1)]
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        TruncatedImportance(**{setting: value})
    assert error.value.setting == setting


def reference(rows: list[Row], cap: float, floor: float, level: str, normalise: bool) -> list[float]:
    """The formula, row by row."""
    units = []
    for row in rows:
        logs = [old - mu for old, mu in zip(row.old, row.mu, strict=True)]
        logs = [math.fsum(logs)] if level == "sequence" else logs
        units.append([max(min(math.exp(each), cap), floor) for each in logs])
    flat = [weight for unit in units for weight in unit]
    mean = math.fsum(flat) / len(flat) if normalise and any(flat) else 1.0
    return [
        (units[i][0] if level == "sequence" else units[i][t]) / mean
        for i, row in enumerate(rows)
        for t in range(row.length)
    ]


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("floor", [0.0, 0.5])
@pytest.mark.parametrize("level", ["step", "sequence"])
@formula_cases
@given(rows=cases())
def test_equals_its_formula(level: Any, floor: float, normalise: bool, rows: list[Row]) -> None:
    correction = TruncatedImportance(cap=5.0, floor=floor, level=level, normalise=normalise)
    expect_weights(correction, rows, lambda seen: reference(seen, 5.0, floor, level, normalise))


def test_floor_by_hand() -> None:
    weights = TruncatedImportance(cap=5.0, floor=0.5)(ratio_rows([[0.25, 1.0, 8.0], [0.75]]))
    torch.testing.assert_close(weights, torch.tensor([0.5, 1.0, 5.0, 0.75], dtype=torch.float64))


def test_a_mean_of_one_by_hand() -> None:
    # Steps: 0.5, 1, 2 (capped), 0.5: mean 1. Rows: 1 and 0.5: mean 3/4.
    given_rows = ratio_rows([[0.5, 1.0, 8.0], [0.5]])
    weights = TruncatedImportance(normalise=True)(given_rows)
    torch.testing.assert_close(weights, torch.tensor([0.5, 1.0, 2.0, 0.5], dtype=torch.float64))
    weights = TruncatedImportance(normalise=True, level="sequence")(ratio_rows([[0.5, 2.0], [0.5]]))
    torch.testing.assert_close(weights, torch.tensor([4 / 3, 4 / 3, 2 / 3], dtype=torch.float64))


def test_a_mean_is_taken_over_the_whole_update() -> None:
    assert TruncatedImportance(normalise=True).whole_update
    assert not TruncatedImportance().whole_update
    assert TruncatedImportance(normalise=True)(no_steps()).shape == (0,)


def test_weights_that_are_all_nothing_stay_so() -> None:
    old = torch.tensor([-800.0, -900.0], dtype=torch.float64)
    given_rows = CorrectionInputs(old, torch.zeros(2).double(), torch.tensor([0, 1]), torch.tensor([1, 1]))
    assert TruncatedImportance(normalise=True)(given_rows).tolist() == [0.0, 0.0]


def test_its_equation() -> None:
    assert TruncatedImportance().formula().text == "c_it = min(kappa_it, 2)"
    clamped = TruncatedImportance(cap=5.0, floor=0.5, level="sequence", normalise=True).formula()
    assert clamped.text == "c_it = clip(prod_t kappa_it, 0.5, 5) / mean_u"
