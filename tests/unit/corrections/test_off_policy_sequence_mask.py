from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from grpo_lightning.corrections.off_policy_sequence_mask import OffPolicySequenceMask
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases
from helpers.correction_cases import expect_weights, far_apart, no_steps, ratio_rows


def reference(rows: list[Row], delta: float, level: str) -> list[float]:
    """The rule, row by row."""
    weights = []
    for row in rows:
        away = math.fsum(mu - now for mu, now in zip(row.mu, row.lp, strict=True)) / row.length > delta
        own = [math.fsum(row.advantage)] * row.length if level == "sequence" else row.advantage
        weights += [0.0 if advantage < 0 and away else 1.0 for advantage in own]
    return weights


@pytest.mark.parametrize("level", ["step", "sequence"])
@formula_cases
@given(rows=st.booleans().flatmap(lambda per_step: cases(per_step=per_step)))
def test_equals_its_formula(level: Any, rows: list[Row]) -> None:
    mask = OffPolicySequenceMask(delta=0.01, level=level)
    for row in rows:  # where the advantages of a row cancel, rounding alone decides the sign of their sum
        size = math.fsum(map(abs, row.advantage))
        assume(level == "step" or size == 0 or abs(math.fsum(row.advantage)) > 1e-12 * size)
    expect_weights(mask, rows, lambda seen: reference(seen, 0.01, level))


def test_by_hand() -> None:
    # pi_theta / mu of the rows: geometric means 1/2, 1/2, 2 and 1.
    inputs = ratio_rows([[0.25, 1.0], [0.5], [2.0], [1.0]], advantages=[-1.0, 1.0, -1.0, -1.0])
    assert OffPolicySequenceMask()(inputs).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert OffPolicySequenceMask(delta=0.7)(inputs).tolist() == [1.0] * 5  # log 2 = 0.693


def test_it_measures_the_current_policy() -> None:
    inputs = ratio_rows([[1.0, 1.0]], advantages=[-1.0])
    assert inputs.log_probs_S is not None
    moved = replace(inputs, log_probs_S=inputs.log_probs_S - 0.5)
    assert OffPolicySequenceMask()(inputs).tolist() == [1.0, 1.0]
    assert OffPolicySequenceMask()(moved).tolist() == [0.0, 0.0]


def test_step_advantages() -> None:
    inputs = replace(ratio_rows([[0.5, 0.5, 0.5]]), advantages_S=torch.tensor([-1.0, 2.0, -3.0]).double())
    assert OffPolicySequenceMask()(inputs).tolist() == [0.0, 0.0, 0.0]
    assert OffPolicySequenceMask(level="step")(inputs).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("level", ["step", "sequence"])
def test_extreme_ratios(level: Any) -> None:
    mask = OffPolicySequenceMask(level=level)
    assert mask(far_apart(-500.0)).tolist() == [0.0] * 3
    assert mask(far_apart(-500.0, advantage=1e-6)).tolist() == [1.0] * 3
    assert mask(far_apart(-500.0, advantage=0.0)).tolist() == [1.0] * 3
    assert mask(far_apart(500.0)).tolist() == [1.0] * 3
    assert mask(no_steps()).shape == (0,)
    assert mask(far_apart(0.0)).dtype == torch.float32


def test_what_it_goes_with() -> None:
    assert (OffPolicySequenceMask().level, OffPolicySequenceMask().whole_update) == ("sequence", False)
    remaining = OffPolicySequenceMask(denominator="remaining", level="step")
    assert (remaining.denominator, remaining.whole_update, remaining.level) == ("remaining", True, "step")


@pytest.mark.parametrize("missing", ["log_probs_S", "advantages_S"])
def test_it_says_what_it_lacks(missing: str) -> None:
    with pytest.raises(ValueError, match="asks for"):
        OffPolicySequenceMask()(replace(far_apart(0.0), **{missing: None}))


def test_its_equation() -> None:
    text = OffPolicySequenceMask().formula().text
    assert text == "c_it = 1 - 1[A_i < 0 and (1/l_i) sum_t log(mu / pi_theta) > 0.0001]"


@pytest.mark.parametrize(
    ("setting", "value"), [("delta", -1.0), ("delta", math.inf), ("level", "token"), ("denominator", "some")]
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        OffPolicySequenceMask(**{setting: value})
    assert error.value.setting == setting
