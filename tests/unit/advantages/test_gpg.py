from __future__ import annotations

from fractions import Fraction

from hypothesis import given

from grpo_lightning.advantages.gpg import GPG
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, centering_error, exact_groups, expect_near, says_nothing
from helpers.tables import reward_table


def test_by_hand() -> None:
    # B = 6, M = 2 + 1 (the pair of equal rewards and the group of one), so the factor is 2. Means 0 and 1/3.
    advantages = GPG()(reward_table([[0.25, 0.25], [9.0], [0.0, 3.0, 0.0]]))
    assert advantages.tolist() == [0.0, 0.0, 0.0, -2.0, 4.0, -2.0]


def test_without_silent_groups_the_factor_is_one() -> None:
    assert GPG()(reward_table([[0.0, 1.0], [0.5, 0.0]])).tolist() == [-0.5, 0.5, 0.25, -0.25]


def test_all_are_zero_where_no_group_says_anything() -> None:
    assert GPG()(reward_table([[0.1, 0.1], [0.7, 0.7, 0.7], [2.0]])).tolist() == [0.0] * 6


def test_rows_that_abstain_or_are_empty_count_neither_in_b_nor_in_m() -> None:
    # Valid: [0, 2] and [1, 1]: factor 2.
    table = reward_table([[0.0, 2.0, None], [1.0, 1.0, 5.0]], lengths=[3, 3, 3, 3, 3, 0])
    assert GPG()(table).tolist() == [-2.0, 2.0, 0.0, 0.0, 0.0, 0.0]


@formula_cases
@given(table=tables())
def test_equals_its_formula(table: RolloutTable) -> None:
    groups = exact_groups(table)
    rows = sum(group.size for group in groups)
    same = sum(group.size for group in groups if says_nothing(group.rewards, table.reward_epsilon))
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in groups:
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        factor = Fraction(rows, rows - same)
        for row, reward in zip(group.rows, group.rewards, strict=True):
            wanted[row] = factor * (reward - group.mean)
            error = centering_error(group.size, group.spread)
            bounds[row] = 1.01 * float(factor) * error + 3 * ROUND * abs(float(wanted[row]))
    expect_near(GPG()(table), wanted, bounds)


def test_formula_is_written_out() -> None:
    assert GPG().formula().text == "A_i = B / (B - M) (r_i - mean_g)"
    assert GPG().formula().latex == r"A_i = \frac{B}{B - M} (r_i - \bar r_g)"
