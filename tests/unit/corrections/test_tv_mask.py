from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.corrections.tv_mask import TVMask
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases
from helpers.correction_cases import expect_weights, far_apart, no_steps, ratio_rows


def reference(rows: list[Row], limit: float, policy: str) -> list[float]:
    """The rule, row by row."""
    weights = []
    for row in rows:
        logs = [own - mu for own, mu in zip(row.old if policy == "old" else row.lp, row.mu, strict=True)]
        distance = math.fsum(abs(math.exp(each) - 1) for each in logs) / row.length
        for log_ratio, advantage in zip(logs, row.advantage, strict=True):
            outwards = (log_ratio > 0 and advantage > 0) or (log_ratio < 0 and advantage < 0)
            weights.append(0.0 if outwards and distance > limit else 1.0)
    return weights


@pytest.mark.parametrize("policy", ["old", "current"])
@formula_cases
@given(rows=cases(per_step=True))
def test_equals_its_formula(policy: Any, rows: list[Row]) -> None:
    expect_weights(TVMask(limit=0.2, policy=policy), rows, lambda seen: reference(seen, 0.2, policy))


def test_by_hand() -> None:
    # Row 0: |kappa - 1| is 3, 1/2 and 0, mean 7/6. Row 1: 1/10.
    ratios = [[4.0, 0.5, 1.0], [1.1]]
    assert TVMask(limit=1.0)(ratio_rows(ratios, [1.0, 1.0])).tolist() == [0.0, 1.0, 1.0, 1.0]
    assert TVMask(limit=1.0)(ratio_rows(ratios, [-1.0, -1.0])).tolist() == [1.0, 0.0, 1.0, 1.0]
    assert TVMask(limit=1.0)(ratio_rows(ratios, [0.0, 0.0])).tolist() == [1.0] * 4
    assert TVMask(limit=1.2)(ratio_rows(ratios, [1.0, 1.0])).tolist() == [1.0] * 4
    assert TVMask(limit=0.05)(ratio_rows(ratios, [1.0, 1.0])).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_which_policy_is_measured() -> None:
    inputs = ratio_rows([[1.0]])
    assert inputs.log_probs_S is not None
    moved = replace(inputs, log_probs_S=inputs.log_probs_S + 1.0)
    assert TVMask(limit=0.5)(moved).tolist() == [1.0]
    assert TVMask(limit=0.5, policy="current")(moved).tolist() == [0.0]


@pytest.mark.parametrize("policy", ["old", "current"])
def test_extreme_ratios(policy: Any) -> None:
    mask = TVMask(limit=0.5, policy=policy)
    assert mask(far_apart(-500.0, advantage=-1e-6)).tolist() == [0.0] * 3
    assert mask(far_apart(-500.0, advantage=1e6)).tolist() == [1.0] * 3
    assert mask(far_apart(500.0, advantage=1e-6)).tolist() == [0.0] * 3
    assert mask(far_apart(1e6, advantage=-1.0)).tolist() == [1.0] * 3
    assert mask(no_steps()).shape == (0,)
    assert mask(far_apart(0.0)).dtype == torch.float32


def test_tiny_ratios_and_advantages_keep_their_sign() -> None:
    tiny = torch.full((3,), 1e-200, dtype=torch.float64)
    inputs = replace(far_apart(1e-12, dtype=torch.float64), advantages_S=tiny)
    assert TVMask(limit=1e-13)(inputs).tolist() == [0.0] * 3


def test_what_it_goes_with() -> None:
    assert (TVMask(limit=1.0).level, TVMask(limit=1.0).whole_update) == ("step", False)
    remaining = TVMask(limit=1.0, denominator="remaining")
    assert (remaining.denominator, remaining.whole_update) == ("remaining", True)


def test_it_says_what_it_lacks() -> None:
    with pytest.raises(ValueError, match="advantages"):
        TVMask(limit=1.0)(replace(far_apart(0.0), advantages_S=None))
    with pytest.raises(ValueError, match="current"):
        TVMask(limit=1.0, policy="current")(replace(far_apart(0.0), log_probs_S=None))
    assert TVMask(limit=1.0)(replace(far_apart(0.0), log_probs_S=None)).tolist() == [1.0] * 3


def test_its_equation() -> None:
    formula = TVMask(limit=0.5, policy="current").formula()
    assert formula.text == "c_it = 1 - 1[sign(log kappa_it) A_it > 0 and (1/l_i) sum_t |kappa_it - 1| > 0.5]"
    assert formula.symbols["kappa"] == "pi_theta / mu, constant"


@pytest.mark.parametrize(
    ("setting", "value"), [("limit", 0.0), ("limit", math.inf), ("policy", "new"), ("denominator", "some")]
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        TVMask(**{"limit": 1.0, setting: value})
    assert error.value.setting == setting
