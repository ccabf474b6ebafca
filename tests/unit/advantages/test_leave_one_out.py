from __future__ import annotations

from fractions import Fraction

import torch
from hypothesis import given

from grpo_lightning.advantages.leave_one_out import LeaveOneOut
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, centering_error, exact_groups, expect_near, says_nothing
from helpers.tables import reward_table


def test_by_hand() -> None:
    # [1, 0, 0]: the others of the first have mean 0, of the second 1/2. [0, 4]: 4 and 0.
    advantages = LeaveOneOut()(reward_table([[1.0, 0.0, 0.0], [0.0, 4.0]]))
    torch.testing.assert_close(advantages, torch.tensor([1.0, -0.5, -0.5, -4.0, 4.0], dtype=torch.float64))


@formula_cases
@given(table=tables())
def test_equals_its_formula(table: RolloutTable) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        for place, row in enumerate(group.rows):
            others = [reward for other, reward in enumerate(group.rewards) if other != place]
            wanted[row] = group.rewards[place] - sum(others, Fraction(0)) / len(others)
            # A centred reward times G / (G - 1), at most 2.
            bounds[row] = 2 * centering_error(group.size, group.spread) + 3 * ROUND * abs(float(wanted[row]))
    expect_near(LeaveOneOut()(table), wanted, bounds)


def test_one_row_does_not_move_its_own_baseline() -> None:
    before = LeaveOneOut()(reward_table([[1.0, 0.0, 0.5]]))
    after = LeaveOneOut()(reward_table([[3.0, 0.0, 0.5]]))
    assert (after - before)[0].item() == 2.0


def test_formula_is_written_out() -> None:
    formula = LeaveOneOut().formula()
    assert formula.text == "A_i = r_i - (1 / (G - 1)) sum_{j in g, j != i} r_j"
    assert formula.sources == ("Ahmadian et al., arXiv 2402.14740",)
