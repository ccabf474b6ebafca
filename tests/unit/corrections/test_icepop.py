from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.corrections.icepop import IcePop
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases
from helpers.correction_cases import expect_weights, far_apart, no_steps, ratio_rows


def reference(rows: list[Row], alpha: float, beta: float, level: str) -> list[float]:
    """The formula, row by row."""
    weights = []
    for row in rows:
        logs = [old - mu for old, mu in zip(row.old, row.mu, strict=True)]
        if level == "sequence":
            logs = [math.fsum(logs)] * row.length
        ratios = [math.exp(each) for each in logs]
        weights += [ratio if alpha <= ratio <= beta else 0.0 for ratio in ratios]
    return weights


@pytest.mark.parametrize("level", ["step", "sequence"])
@formula_cases
@given(rows=cases())
def test_equals_its_formula(level: Any, rows: list[Row]) -> None:
    expect_weights(IcePop(level=level), rows, lambda seen: reference(seen, 0.5, 5.0, level))


def test_steps_by_hand() -> None:
    weights = IcePop()(ratio_rows([[0.4, 0.8, 4.0], [6.0]]))
    torch.testing.assert_close(weights, torch.tensor([0.0, 0.8, 4.0, 0.0], dtype=torch.float64))


def test_rows_by_hand() -> None:
    # Products: 0.4 * 2 = 0.8 and 3 * 2 = 6.
    weights = IcePop(level="sequence")(ratio_rows([[0.4, 2.0], [3.0, 2.0]]))
    torch.testing.assert_close(weights, torch.tensor([0.8, 0.8, 0.0, 0.0], dtype=torch.float64))


@pytest.mark.parametrize("level", ["step", "sequence"])
@pytest.mark.parametrize("log_ratio", [-500.0, 500.0])
def test_extreme_ratios_are_left_out(level: Any, log_ratio: float) -> None:
    assert IcePop(level=level)(far_apart(log_ratio)).tolist() == [0.0] * 3
    assert IcePop(level=level)(no_steps()).shape == (0,)


def test_policies_that_agree_have_weight_exactly_one() -> None:
    weights = IcePop(alpha=1.0, beta=1.0)(far_apart(0.0))
    assert weights.tolist() == [1.0] * 3
    assert weights.dtype == torch.float32


def test_what_is_counted() -> None:
    assert (IcePop().denominator, IcePop().whole_update) == ("original", False)
    remaining = IcePop(denominator="remaining", level="sequence")
    assert (remaining.denominator, remaining.whole_update, remaining.level) == ("remaining", True, "sequence")


def test_its_equation() -> None:
    assert IcePop().formula().text == "c_it = kappa_it 1[0.5 <= kappa_it <= 5]"
    assert IcePop(level="sequence").formula().text == "c_it = kappa_i 1[0.5 <= kappa_i <= 5]"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alpha", -0.1),
        ("alpha", 1.5),
        ("beta", 0.9),
        ("beta", math.inf),
        ("level", "token"),
        ("denominator", "some"),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        IcePop(**{setting: value})
    assert error.value.setting == setting
