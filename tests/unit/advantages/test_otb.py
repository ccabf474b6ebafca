from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.otb import OptimalTokenBaseline
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases
from helpers.rollout_steps import StepRow, on_two_ranks, rollouts, rounding, step_row, steps_of, table_of


def energies(row: StepRow, cap: float | None) -> list[float]:
    """Energy up to each step, from the definition: squared length of ``one_hot(y) - pi``, times the truncated ratio."""
    total, result = 0.0, []
    for distribution, log_ratio in zip(row.distributions, row.log_ratios, strict=True):
        length = (1 - distribution[0]) ** 2 + sum(p * p for p in distribution[1:])
        total += length * (1.0 if cap is None else min(math.exp(log_ratio), cap) ** 2)
        result.append(total)
    return result


def reference(table: RolloutTable, rows: list[StepRow], cap: float | None) -> list[float]:
    """The formula, position by position."""
    returns = [[math.fsum(row.rewards[step:]) for step in range(row.length)] if row.valid else [] for row in rows]
    spent = [energies(row, cap) for row in rows]
    result = []
    for index, row in enumerate(rows):
        members = [other for other, each in enumerate(rows) if each.group == row.group and each.valid]
        for step in range(row.length):
            alive = [other for other in members if rows[other].length > step]
            if not row.valid or len(members) < 2:
                result.append(0.0)
                continue
            values = [returns[other][step] for other in alive]
            if len(alive) == 1:
                result.append(values[0])
                continue
            if max(values) - min(values) <= 4 * table.reward_epsilon * max(map(abs, values)):
                result.append(0.0)
                continue
            weights = [spent[other][step] for other in alive]
            weights = weights if sum(weights) > 0 else [1.0] * len(alive)
            baseline = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)
            result.append(returns[index][step] - baseline)
    return result


@pytest.mark.parametrize("cap", [None, 2.0])
@formula_cases
@given(case=rollouts())
def test_equals_its_formula(case: tuple[RolloutTable, list[StepRow]], cap: float | None) -> None:
    table, rows = case
    found = OptimalTokenBaseline(cap=cap)(table, steps_of(rows))
    # Energies near certain choices are differences of probabilities near 1: 4e-16 of 1e-6, so baselines are off by 1e-9
    # of what the returns span.
    returns = [math.fsum(row.rewards[step:]) for row in rows if row.valid for step in range(row.length)]
    span = max(returns) - min(returns) if returns else 0.0
    torch.testing.assert_close(
        found,
        torch.tensor(reference(table, rows, cap), dtype=torch.float64),
        rtol=1e-10,
        atol=1e-9 * span + rounding(rows) + 1e-15,
    )


def test_energies_weigh_the_returns_by_hand() -> None:
    # Two even choices spend 1/2 a step; one of probability 1/4 out of [1/4, 3/4] spends 9/16 + 9/16 = 9/8.
    even, rare = [0.5, 0.5], [0.25, 0.75]
    rows = [step_row(0, [0.0, 1.0], distributions=[even, even]), step_row(0, [0.0, 0.0], distributions=[rare, even])]
    advantages = OptimalTokenBaseline()(table_of(rows), steps_of(rows))
    first, second = 0.5 / (0.5 + 9 / 8), 1.0 / (1.0 + 9 / 8 + 0.5)
    torch.testing.assert_close(advantages, torch.tensor([1 - first, 1 - second, -first, -second], dtype=torch.float64))


def test_equal_energies_make_it_the_distance_from_the_mean() -> None:
    rows = [step_row(0, [0.0, reward]) for reward in (0.0, 1.0, 5.0)]
    advantages = OptimalTokenBaseline()(table_of(rows), steps_of(rows))
    torch.testing.assert_close(advantages, torch.tensor([-2.0, -2.0, -1.0, -1.0, 3.0, 3.0], dtype=torch.float64))


def test_the_tail_has_baseline_0_and_a_group_of_one_is_silent() -> None:
    rows = [step_row(0, [0.0, 0.5, 1.0]), step_row(0, [0.5]), step_row(1, [0.0, 1.0])]
    advantages = OptimalTokenBaseline()(table_of(rows), steps_of(rows))
    torch.testing.assert_close(advantages, torch.tensor([0.5, 1.5, 1.0, -0.5, 0.0, 0.0], dtype=torch.float64))


def test_equal_returns_are_exactly_0_but_for_the_tail() -> None:
    uneven = [[0.9, 0.1]]
    rows = [step_row(0, [0.1], distributions=uneven), step_row(0, [0.1]), step_row(0, [0.0, 0.1])]
    assert OptimalTokenBaseline()(table_of(rows), steps_of(rows)).tolist() == [0.0, 0.0, 0.0, 0.1]


def test_equality_is_judged_in_the_type_that_rewards_arrived_in() -> None:
    rows = [step_row(0, [1.0]), step_row(0, [1.0 + 1e-7])]
    table = table_of(rows)
    assert OptimalTokenBaseline()(table, steps_of(rows)).any()
    coarse = replace(table, reward_epsilon=torch.finfo(torch.float32).eps)
    assert not OptimalTokenBaseline()(coarse, steps_of(rows)).any()


def test_without_any_energy_all_rows_weigh_the_same() -> None:
    rows = [step_row(0, [reward], distributions=[[1.0, 0.0]]) for reward in (0.0, 1.0)]
    assert OptimalTokenBaseline()(table_of(rows), steps_of(rows)).tolist() == [-0.5, 0.5]


def test_truncated_ratios_weigh_the_energy_before_it_is_added_up() -> None:
    # Energies 1/2 a step. First row: ratios 1 and 3, truncated at 2: 1/2 then 1/2 + 4/2. Second row: 1/2 and 1.
    rows = [step_row(0, [0.0, 1.0], log_ratios=[0.0, math.log(3)]), step_row(0, [0.0, 0.0])]
    advantages = OptimalTokenBaseline(cap=2.0)(table_of(rows), steps_of(rows))
    second = 2.5 / 3.5
    torch.testing.assert_close(advantages, torch.tensor([0.5, 1 - second, -0.5, -second], dtype=torch.float64))


def test_on_the_sampling_policy_the_ratios_change_nothing() -> None:
    rows = [step_row(0, [0.0, 1.0], distributions=[[0.2, 0.8], [0.7, 0.3]]), step_row(0, [0.5, 0.0])]
    table, steps = table_of(rows), steps_of(rows)
    torch.testing.assert_close(OptimalTokenBaseline(cap=2.0)(table, steps), OptimalTokenBaseline()(table, steps))


@pytest.mark.parametrize("cap", [1.0, 1e3])
def test_far_ratios_stay_finite(cap: float) -> None:
    rows = [step_row(0, [1.0], log_ratios=[500.0]), step_row(0, [0.0], log_ratios=[-500.0]), step_row(0, [0.5])]
    advantages = OptimalTokenBaseline(cap=cap)(table_of(rows), steps_of(rows))
    expected = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64) - (cap**2 + 0.5) / (cap**2 + 1)
    torch.testing.assert_close(advantages, expected)
    vanished = [step_row(0, [float(reward)], log_ratios=[-500.0]) for reward in (0, 1)]
    assert OptimalTokenBaseline(cap=cap)(table_of(vanished), steps_of(vanished)).tolist() == [-0.5, 0.5]


def test_rows_that_abstain_are_in_no_baseline() -> None:
    rows = [step_row(0, [0.0]), step_row(0, [math.nan, math.inf], valid=False), step_row(0, [1.0])]
    assert OptimalTokenBaseline()(table_of(rows), steps_of(rows)).tolist() == [-0.5, 0.0, 0.0, 0.5]


@formula_cases
@given(case=rollouts(), cut=st.integers(0, 4))
def test_needs_nothing_from_other_ranks(case: tuple[RolloutTable, list[StepRow]], cut: int) -> None:
    table, rows = case
    found, calls = on_two_ranks(OptimalTokenBaseline(), table, rows, sum(row.group < cut for row in rows))
    assert calls == [0, 0]
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float64),
        OptimalTokenBaseline()(table, steps_of(rows)),
        rtol=0,
        atol=rounding(rows),
    )


def test_says_what_it_lacks() -> None:
    rows = [step_row(0, [1.0]), step_row(0, [0.0])]
    steps = replace(steps_of(rows), behaviour_log_probs_S=None)
    assert OptimalTokenBaseline()(table_of(rows), steps).tolist() == [0.5, -0.5]
    with pytest.raises(ValueError, match="distribution that sampled"):
        OptimalTokenBaseline(cap=2.0)(table_of(rows), steps)


def test_the_equation_has_the_numbers() -> None:
    assert "min(pi/mu, 2)^2 (1 - 2 pi(y_is)" in OptimalTokenBaseline(cap=2.0).formula().text
    assert "min" not in OptimalTokenBaseline().formula().text
    assert OptimalTokenBaseline.functionals == {"log_prob", "sum_of_squares"}


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_wrong_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        OptimalTokenBaseline(cap=value)
    assert error.value.setting == "cap"
