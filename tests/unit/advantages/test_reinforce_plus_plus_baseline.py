from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.reinforce_plus_plus_baseline import ReinforcePlusPlusBaseline
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import (
    ROUND,
    centering_error,
    deviation_error,
    exact_groups,
    expect_near,
    quotient_error,
    root,
    says_nothing,
)
from helpers.tables import reward_table


def test_over_steps_by_hand() -> None:
    # A' = [-1, 1] with 1 and 3 steps: mean (-1 + 3) / 4 = 1/2, squares 9/4 + 3 / 4 = 3, variance 3/4.
    advantages = ReinforcePlusPlusBaseline(eps=0.0)(reward_table([[0.0, 2.0]], lengths=[1, 3]))
    std = math.sqrt(0.75)
    torch.testing.assert_close(advantages, torch.tensor([-1.5 / std, 0.5 / std], dtype=torch.float64))


def test_over_rows_by_hand() -> None:
    # A' = [-1, 1, -3, 3]: mean 0, squares 20.
    table = reward_table([[0.0, 2.0], [10.0, 16.0]], lengths=[1, 3, 5, 1])
    found = ReinforcePlusPlusBaseline(over="rows", ddof=1, eps=0.5)(table)
    divisor = math.sqrt(20 / 3) + 0.5
    torch.testing.assert_close(found, torch.tensor([-1.0, 1.0, -3.0, 3.0], dtype=torch.float64) / divisor)


def test_groups_that_say_nothing_are_zero_and_leave_the_moments() -> None:
    alone = ReinforcePlusPlusBaseline()(reward_table([[0.0, 2.0]], lengths=[1, 3]))
    among = ReinforcePlusPlusBaseline()(reward_table([[0.1, 0.1, 0.1], [0.0, 2.0], [7.0]], lengths=[9, 9, 9, 1, 3, 30]))
    assert among[[0, 1, 2, 5]].tolist() == [0.0] * 4
    torch.testing.assert_close(among[3:5], alone, rtol=1e-14, atol=0.0)


def test_all_zero_where_no_group_says_anything() -> None:
    assert ReinforcePlusPlusBaseline(eps=0.0)(reward_table([[0.1, 0.1], [3.0]])).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "mode",
    [{}, {"over": "rows", "ddof": 1}, {"over": "steps", "ddof": 1, "eps": 0.0}, {"over": "rows", "eps": 0.5}],
    ids=str,
)
@formula_cases
@given(table=tables())
def test_equals_its_formula(mode: dict[str, Any], table: RolloutTable) -> None:
    over, ddof, eps = mode.get("over", "steps"), mode.get("ddof", 0), mode.get("eps", 1e-8)
    groups = [group for group in exact_groups(table) if not says_nothing(group.rewards, table.reward_epsilon)]
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    if groups:
        centered = {
            row: reward - group.mean for group in groups for row, reward in zip(group.rows, group.rewards, strict=True)
        }
        lengths = {row: length for group in groups for row, length in zip(group.rows, group.lengths, strict=True)}
        pool = [centered[row] for row in centered for _ in range(lengths[row] if over == "steps" else 1)]
        mean = sum(pool, Fraction(0)) / len(pool)
        std = root(sum(((each - mean) ** 2 for each in pool), Fraction(0)) / (len(pool) - ddof))
        # Beside the error of A' itself: the rows' products and additions in the mean, and three subtractions.
        reach = 2 * float(max(abs(each) for each in pool))
        error = max(centering_error(group.size, group.spread) for group in groups)
        error = 2 * error + (len(centered) + 8) * ROUND * reach
        for row, each in centered.items():
            wanted[row] = (each - mean) / Fraction(std + eps)
            bounds[row] = quotient_error(
                error, float(wanted[row]), std + eps, deviation_error(error, len(centered) + 4, std)
            )
    expect_near(ReinforcePlusPlusBaseline(**mode)(table), wanted, bounds)


def test_formula_shows_its_numbers() -> None:
    formula = ReinforcePlusPlusBaseline(over="rows", eps=0.25, ddof=1).formula()
    assert formula.text == "A_i = (A'_i - mean_B) / (std_B + 0.25), A'_i = r_i - mean_g"
    assert "over the rows" in formula.symbols["mean_B"]
    assert "ddof 1" in formula.symbols["std_B"]


@pytest.mark.parametrize(("setting", "value"), [("over", "batch"), ("ddof", 2), ("eps", -1.0), ("eps", math.nan)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        ReinforcePlusPlusBaseline(**{setting: value})
    assert error.value.setting == setting
