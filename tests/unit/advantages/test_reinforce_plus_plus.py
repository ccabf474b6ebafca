from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.reinforce_plus_plus import ReinforcePlusPlus
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases
from helpers.rollout_steps import StepRow, on_two_ranks, rollouts, rounding, step_row, steps_of, table_of


def reference(
    table: RolloutTable, rows: list[StepRow], gamma: float, eps: float, ddof: int
) -> tuple[list[float], float]:
    """The formula, step by step, and what the steps' advantages may be off by."""
    returns = []
    for row in rows:
        ahead, backwards = 0.0, []
        for reward in reversed(row.rewards):
            ahead = reward + gamma * ahead
            backwards.append(ahead)
        returns += [(value, row.valid) for value in reversed(backwards)]
    pool = [value for value, valid in returns if valid]
    if not pool:
        return [0.0] * len(returns), 0.0
    mean = math.fsum(pool) / len(pool)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in pool) / max(len(pool) - ddof, 1))
    std = std if len(pool) > ddof else 0.0
    if all(abs(value - mean) <= 4 * table.reward_epsilon * max(abs(value), abs(mean)) for value in pool):
        return [0.0] * len(returns), 0.0
    advantages = [(value - mean) / (std + eps) if valid else 0.0 for value, valid in returns]
    # Deviations carry the rounding of the returns they are differences of; so does their size, which divides them.
    return advantages, rounding(rows) / (std + eps) * (1 + max(map(abs, advantages)))


@pytest.mark.parametrize(("gamma", "ddof"), [(1.0, 1), (1.0, 0), (0.9, 1), (0.0, 1)])
@formula_cases
@given(case=rollouts(), eps=st.sampled_from([1e-8, 0.5]))
def test_equals_its_formula(case: tuple[RolloutTable, list[StepRow]], gamma: float, ddof: int, eps: float) -> None:
    table, rows = case
    expected, tolerance = reference(table, rows, gamma, eps, ddof)
    found = ReinforcePlusPlus(gamma=gamma, eps=eps, ddof=ddof)(table, steps_of(rows))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=tolerance + 1e-12)


@formula_cases
@given(case=rollouts(), cut=st.integers(0, 4), gamma=st.sampled_from([1.0, 0.9]))
def test_is_the_same_on_two_ranks(case: tuple[RolloutTable, list[StepRow]], cut: int, gamma: float) -> None:
    table, rows = case
    estimator = ReinforcePlusPlus(gamma=gamma)
    first = sum(row.group < cut for row in rows)
    found, calls = on_two_ranks(estimator, table, rows, first)
    expected, tolerance = reference(table, rows, gamma, 1e-8, 1)
    assert calls[0] == calls[1] > 0
    for other in (torch.tensor(expected, dtype=torch.float64), estimator(table, steps_of(rows))):
        torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), other, rtol=1e-10, atol=tolerance + 1e-12)


def test_whitened_steps_by_hand() -> None:
    # Returns 3, 3, 3 | 1 | 2, 2: mean 14/6, squares 3 (2/3)^2 + (4/3)^2 + 2 (1/3)^2 = 30/9.
    rows = [step_row(0, [0.0, 0.0, 3.0]), step_row(0, [1.0]), step_row(1, [0.0, 2.0])]
    advantages = ReinforcePlusPlus(eps=0.0, ddof=0)(table_of(rows), steps_of(rows))
    std = math.sqrt(30 / 9 / 6)
    expected = [2 / 3 / std] * 3 + [-4 / 3 / std] + [-1 / 3 / std] * 2
    torch.testing.assert_close(advantages, torch.tensor(expected, dtype=torch.float64))


def test_small_differences_of_large_returns_keep_their_digits() -> None:
    # The mean of these is not a number of float64: rounded, it is off by 1e-6 of the differences.
    rows = [step_row(0, [1e6 / 3 + (index % 3) * 2.0**-14]) for index in range(1001)]
    advantages = ReinforcePlusPlus(eps=0.0)(table_of(rows), steps_of(rows))
    assert abs(float(advantages.mean())) < 1e-9


def test_a_penalty_is_paid_by_the_steps_up_to_it() -> None:
    # Returns 0.5, 1, 1 | 1, 1, 1 before whitening: only the first step of the first row still has the 0.5 to pay.
    rows = [step_row(0, [-0.5, 0.0, 1.0]), step_row(0, [0.0, 0.0, 1.0])]
    advantages = ReinforcePlusPlus()(table_of(rows), steps_of(rows))
    assert advantages[0] < 0
    assert torch.equal(advantages[1:], advantages[1].expand(5))


def test_discount_runs_over_trainable_steps_and_turns() -> None:
    # Returns 0.25, 0.5, 1 | 0: mean 7/16.
    rows = [step_row(0, [0.0, 0.0, 1.0], turns=[0, 1, 2]), step_row(1, [0.0])]
    advantages = ReinforcePlusPlus(gamma=0.5, eps=0.0)(table_of(rows), steps_of(rows))
    differences = advantages - advantages[3]
    torch.testing.assert_close(differences / differences[2], torch.tensor([0.25, 0.5, 1.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(advantages.mean(), torch.tensor(0.0, dtype=torch.float64))


def test_mean_0_and_standard_deviation_1_over_steps() -> None:
    rows = [step_row(0, [0.0] * length + [float(length % 3)]) for length in range(7)]
    advantages = ReinforcePlusPlus(eps=0.0)(table_of(rows), steps_of(rows))
    torch.testing.assert_close(advantages.mean(), torch.tensor(0.0, dtype=torch.float64))
    torch.testing.assert_close(advantages.std(), torch.tensor(1.0, dtype=torch.float64))


def test_a_group_of_equal_rewards_keeps_its_distance_from_the_rollout() -> None:
    rows = [step_row(0, [1.0]), step_row(0, [1.0]), step_row(1, [0.0]), step_row(1, [1.0])]
    advantages = ReinforcePlusPlus(eps=0.0, ddof=0)(table_of(rows), steps_of(rows))
    # mean 3/4, variance 3/16
    torch.testing.assert_close(advantages[0], torch.tensor(0.25 / math.sqrt(3 / 16), dtype=torch.float64))


@pytest.mark.parametrize("reward", [0.1, -1e6, 1e-6])
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_a_rollout_without_any_difference_is_exactly_0(reward: float, eps: float) -> None:
    rows = [step_row(group, [0.0] * 5 + [reward]) for group in range(3) for _ in range(7)]
    assert not ReinforcePlusPlus(eps=eps)(table_of(rows), steps_of(rows)).any()


def test_one_failure_among_many_is_seen_although_rewards_arrive_in_bfloat16() -> None:
    rows = [step_row(0, [0.0] * 99 + [1.0]) for _ in range(50)] + [step_row(0, [0.0])]
    table = replace(table_of(rows), reward_epsilon=torch.finfo(torch.bfloat16).eps)
    advantages = ReinforcePlusPlus()(table, steps_of(rows))
    assert advantages[-1] < -50
    assert (advantages[:-1] > 0).all()


def test_rows_that_abstain_are_in_no_statistic() -> None:
    rows = [step_row(0, [1.0, 2.0]), step_row(1, [0.5])]
    silent = step_row(0, [math.nan, math.inf], valid=False)
    alone = ReinforcePlusPlus()(table_of(rows), steps_of(rows)).tolist()
    with_silent = [rows[0], silent, rows[1]]
    found = ReinforcePlusPlus()(table_of(with_silent), steps_of(with_silent)).tolist()
    assert found == [*alone[:2], 0.0, 0.0, alone[2]]


def test_a_single_step_and_no_step_at_all() -> None:
    rows = [step_row(0, [3.0])]
    assert ReinforcePlusPlus()(table_of(rows), steps_of(rows)).tolist() == [0.0]
    assert ReinforcePlusPlus()(table_of([]), steps_of([])).shape == (0,)


def test_the_equation_has_the_numbers() -> None:
    formula = ReinforcePlusPlus(gamma=0.9).formula()
    assert formula.text == "A_it = (R_it - mean_B) / (std_B + 1e-08), R_it = sum_{s>=t} 0.9^(s-t) r_is"
    assert r"\sigma_B + 10^{-8}" in formula.latex
    assert ReinforcePlusPlus(eps=0.0).formula().text == "A_it = (R_it - mean_B) / std_B, R_it = sum_{s>=t} r_is"


@pytest.mark.parametrize(
    ("setting", "value"), [("gamma", 1.1), ("gamma", -0.1), ("gamma", math.nan), ("eps", -1.0), ("ddof", 2)]
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        ReinforcePlusPlus(**{setting: value})
    assert error.value.setting == setting
