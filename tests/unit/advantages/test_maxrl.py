from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from grpo_lightning.advantages.maxrl import MaxRL
from grpo_lightning.errors import RewardError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, centering_error, exact_groups, expect_near, says_nothing
from helpers.tables import reward_table


def test_by_hand() -> None:
    # Means 1/4, 2 and 1/2.
    advantages = MaxRL()(reward_table([[1.0, 0.0, 0.0, 0.0], [0.0, 4.0], [1.0, 0.0]]))
    assert advantages.tolist() == [3.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0, -1.0]


def test_right_rows_get_the_odds_of_being_wrong() -> None:
    for right in range(1, 8):
        advantages = MaxRL()(reward_table([[1.0] * right + [0.0] * (8 - right)]))
        assert advantages.tolist() == pytest.approx([(8 - right) / right] * right + [-1.0] * (8 - right), rel=1e-15)


def test_zero_where_no_row_scores() -> None:
    assert MaxRL()(reward_table([[0.0, 0.0, 0.0], [1.0, 1.0], [2.0]])).tolist() == [0.0] * 6


def test_a_negative_reward_is_an_error_that_names_the_row() -> None:
    with pytest.raises(RewardError, match=r"maxrl.* member 2 of group 1 has -0\.5"):
        MaxRL()(reward_table([[1.0, 0.0], [0.0, None, -0.5]]))


@formula_cases
@given(table=tables(low=0.0))
def test_equals_its_formula(table: RolloutTable) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        if says_nothing(group.rewards, table.reward_epsilon) or group.mean == 0:
            continue
        for row, reward in zip(group.rows, group.rewards, strict=True):
            wanted[row] = (reward - group.mean) / group.mean
            # The mean of numbers that are not negative is good to n roundings of itself.
            error = centering_error(group.size, group.spread) / float(group.mean)
            bounds[row] = 1.01 * error + (group.size + 3) * ROUND * abs(float(wanted[row]))
    expect_near(MaxRL()(table), wanted, bounds)


def test_formula_is_written_out() -> None:
    assert MaxRL().formula().text == "A_i = (r_i - mean_g) / mean_g"
    assert MaxRL().formula().latex == r"A_i = \frac{r_i - \bar r_g}{\bar r_g}"
