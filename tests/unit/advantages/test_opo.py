from __future__ import annotations

from fractions import Fraction

import torch
from hypothesis import given

from grpo_lightning.advantages.mean_centered import MeanCentered
from grpo_lightning.advantages.opo import OPO
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, exact_groups, expect_near, says_nothing
from helpers.tables import reward_table


def test_by_hand() -> None:
    # Baselines (1 * 1 + 3 * 0) / 4 = 1/4 and (2 * 4 + 2 * 0) / 4 = 2.
    advantages = OPO()(reward_table([[1.0, 0.0], [4.0, 0.0]], lengths=[1, 3, 2, 2]))
    assert advantages.tolist() == [0.75, -0.25, 2.0, -2.0]


def test_rows_of_equal_length_are_compared_with_their_mean() -> None:
    table = reward_table([[1.0, 0.0, 0.25], [0.5, 0.75]], lengths=[7] * 5)
    torch.testing.assert_close(OPO()(table), MeanCentered()(table), rtol=1e-15, atol=0.0)


def test_weighted_by_length_they_add_up_to_zero() -> None:
    table = reward_table([[1.0, 0.0, 0.5, 0.125]], lengths=[1, 2, 3, 40])
    assert abs((OPO()(table) * table.lengths_R).sum().item()) < 1e-14


@formula_cases
@given(table=tables())
def test_equals_its_formula(table: RolloutTable) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        weighed = sum(
            (length * reward for length, reward in zip(group.lengths, group.rewards, strict=True)), Fraction(0)
        )
        for row, reward in zip(group.rows, group.rewards, strict=True):
            wanted[row] = reward - weighed / sum(group.lengths)
            # n + 4 roundings of the spread for the centred reward, as many again for those in the baseline, n + 1 for its
            # products and additions, one for the quotient and one for the difference, which is below twice the spread.
            bounds[row] = (3 * group.size + 12) * ROUND * float(group.spread)
    expect_near(OPO()(table), wanted, bounds)


def test_formula_is_written_out() -> None:
    assert OPO().formula().text == "A_i = r_i - sum_j l_j r_j / sum_j l_j"
    assert OPO().formula().sources == ("Hao et al., arXiv 2505.23585",)
