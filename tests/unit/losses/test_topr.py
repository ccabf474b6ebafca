from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.reinforce import Reinforce
from grpo_lightning.losses.topr import TOPR
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def tapered(row: Row) -> float:
    ratio = sum(lp.item() - mu for lp, mu in zip(row.lp, row.mu, strict=True))
    return math.exp(ratio) if ratio < 0 else 1.0


def by_advantage(rows: list[Row]) -> list[Any]:
    found = []
    for row in rows:
        for lp, advantage in zip(row.lp, row.advantage, strict=True):
            found.append(-(1.0 if advantage >= 0 else tapered(row)) * advantage * lp)
    return found


def by_reward(rows: list[Row]) -> list[Any]:
    return [-(1.0 if row.reward >= 0 else tapered(row)) * row.reward * lp for row in rows for lp in row.lp]


@pytest.mark.parametrize("signal", ["advantage", "reward"])
@pytest.mark.parametrize("per_step", [False, True])
@formula_cases
@given(data=st.data())
def test_equals_its_formula(signal: Any, per_step: bool, data: Any) -> None:
    reference = by_advantage if signal == "advantage" else by_reward
    expect_formula(TOPR(signal=signal), data.draw(cases(per_step=per_step)), reference)


@formula_cases
@given(rows=cases())
def test_good_rows_have_weight_one_exactly(rows: list[Row]) -> None:
    for row in rows:
        row.advantage = [abs(each) for each in row.advantage]
    inputs = inputs_of(rows)
    result = TOPR()(inputs)
    assert result.terms.tolist() == Reinforce()(inputs).terms.tolist()
    assert set(result.step_metrics["weight"].tolist()) == {1.0}
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    assert gradient.tolist() == (-inputs.advantages_S).tolist()


def test_bad_rows_by_hand() -> None:
    # Row 1: ratio 2 * 1/8 = 1/4. Row 2: ratio 2 * 2 = 4, held at 1.
    rows = [
        Row(0, [-1.0, -1.0], [0.0, 0.0], [-1.0 - math.log(2.0), -1.0 + math.log(8.0)], [-2.0, -2.0]),
        Row(0, [-1.0, -3.0], [0.0, 0.0], [-1.0 - math.log(2.0), -3.0 - math.log(2.0)], [-2.0, -2.0]),
    ]
    inputs = inputs_of(rows)
    result = TOPR()(inputs)
    torch.testing.assert_close(result.terms, torch.tensor([-0.5, -0.5, -2.0, -6.0], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    torch.testing.assert_close(gradient, torch.tensor([0.5, 0.5, 2.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(result.step_metrics["weight"], torch.tensor([0.25, 0.25, 1.0, 1.0]).double())
    assert result.step_metrics["clip_fraction_high"].tolist() == [0, 0, 1, 1]


def test_the_boundary_at_zero_has_neither_term_nor_gradient() -> None:
    inputs = inputs_of([Row(0, [-1.0], [0.0], [5.0], [0.0], reward=0.0)])
    for signal in ("advantage", "reward"):
        terms = TOPR(signal=signal)(inputs).terms  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(terms.sum(), inputs.log_probs_S)
        assert (terms.item(), gradient.item()) == (0.0, 0.0)


def test_by_reward_rows_of_advantage_zero_have_a_term_and_abstentions_none() -> None:
    assert TOPR(signal="reward").runs_silent
    assert not TOPR().runs_silent
    rows = [Row(0, [-1.0], [-1.0], [-1.0], [0.0], reward=1.0), Row(0, [-1.0], [-1.0], [-1.0], [0.0], reward=math.nan)]
    inputs = inputs_of(rows)
    terms = TOPR(signal="reward")(inputs).terms
    assert terms.tolist() == [1.0, 0.0]
    assert torch.autograd.grad(terms.sum(), inputs.log_probs_S)[0].tolist() == [-1.0, 0.0]


def test_missing_rewards_are_an_error_with_a_name() -> None:
    inputs = replace(inputs_of([Row(0, [-1.0], [0.0], [5.0], [1.0])]), rewards_R=None)
    TOPR()(inputs)
    with pytest.raises(ConfigError, match=r"^signal: 'reward' asks for rewards"):
        TOPR(signal="reward")(inputs)


def test_it_weighs_the_sampler_itself() -> None:
    assert TOPR.weighs_sampler


def test_its_formula_names_its_signal() -> None:
    assert TOPR().formula().text.startswith("l_it = -w_it A_it log pi_theta(it), w_it = 1 where A_it >= 0")
    assert "r_i < 0" in TOPR(signal="reward").formula().text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(TOPR(), log_ratio, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("signal", "return"), ("signal", None)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        TOPR(**{setting: value})
    assert error.value.setting == setting
