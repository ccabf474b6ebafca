from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.leave_one_out import LeaveOneOut
from grpo_lightning.advantages.mean_centered import MeanCentered
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import centering_error, exact_groups, expect_near, says_nothing
from helpers.tables import reward_table


def test_by_hand() -> None:
    # Means 1/4, 2 and 1.
    advantages = MeanCentered()(reward_table([[1.0, 0.0, 0.0, 0.0], [0.0, 4.0], [0.5, 1.0, 1.5]]))
    assert advantages.tolist() == [0.75, -0.25, -0.25, -0.25, -2.0, 2.0, -0.5, 0.0, 0.5]


@pytest.mark.parametrize("size", [2, 3, 8])
def test_is_leave_one_out_up_to_a_factor_of_the_size(size: int) -> None:
    table = reward_table([[float(i * i) for i in range(size)]])
    torch.testing.assert_close(MeanCentered()(table), LeaveOneOut()(table) * (size - 1) / size)


@formula_cases
@given(table=tables())
def test_equals_its_formula(table: RolloutTable) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        for row, reward in zip(group.rows, group.rewards, strict=True):
            wanted[row] = reward - sum(group.rewards, Fraction(0)) / group.size
            bounds[row] = centering_error(group.size, group.spread)
    expect_near(MeanCentered()(table), wanted, bounds)


def test_formula_is_written_out() -> None:
    assert MeanCentered().formula().text == "A_i = r_i - mean_g"
    assert MeanCentered().formula().latex == r"A_i = r_i - \bar r_g"
