from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given

from grpo_lightning.advantages.pass_at_k import PassAtK
from grpo_lightning.errors import ConfigError, RewardError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, exact_groups, expect_near, root
from helpers.tables import reward_table


def choose(n: int, k: int) -> int:
    """Counts subsets by Pascal's rule."""
    line = [1]
    for _ in range(n):
        line = [1, *[left + right for left, right in pairwise(line)], 1]
    return line[k] if 0 <= k <= n else 0


def test_by_hand() -> None:
    # One of 4 right, k = 2: R = 1 - 3/6 = 1/2, s = 1/2; right 1, wrong (1/2 - 2/3) / (1/2) = -1/3.
    found = PassAtK(k=2)(reward_table([[1.0, 0.0, 0.0, 0.0]])).tolist()
    assert found == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3], rel=1e-15)


def test_k_of_one_is_the_reward_in_population_standard_deviations() -> None:
    # Mean 1/4, variance 3/16.
    found = PassAtK(k=1)(reward_table([[1.0, 0.0, 0.0, 0.0]])).tolist()
    assert found == pytest.approx([math.sqrt(3), *[-1 / math.sqrt(3)] * 3], rel=1e-15)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("right", [0, 1, 2, 4, 5])
def test_equals_the_mean_over_all_subsets_with_the_row(k: int, right: int) -> None:
    rewards = [1.0] * right + [0.0] * (5 - right)
    subsets = list(combinations(range(5), k))
    best = [max(rewards[row] for row in subset) for subset in subsets]
    mean = sum(best) / len(best)
    std = math.sqrt(sum((each - mean) ** 2 for each in best) / len(best))
    wanted = []
    for row in range(5):
        mine = [value for subset, value in zip(subsets, best, strict=True) if row in subset]
        wanted.append(0.0 if std == 0 else sum((value - mean) / std for value in mine) / len(mine))
    found = PassAtK(k=k)(reward_table([rewards])).tolist()
    assert found == pytest.approx(wanted, rel=1e-13, abs=1e-15)
    if std == 0:
        assert found == [0.0] * 5


def test_a_group_without_enough_rows_or_without_enough_wrong_ones_is_zero() -> None:
    assert PassAtK(k=3)(reward_table([[1.0, 0.0]])).tolist() == [0.0, 0.0]
    assert (
        PassAtK(k=3)(reward_table([[1.0, 0.0, 0.0, None]])).tolist() == [0.0] * 4
    )  # 2 wrong: every 3 hold the right one
    assert PassAtK(k=3)(reward_table([[1.0, 0.0, None, None]])).tolist() == [0.0] * 4
    assert PassAtK(k=2)(reward_table([[1.0, 0.0, 1.0]])).tolist() == [0.0] * 3
    assert PassAtK(k=1)(reward_table([[1.0]])).tolist() == [0.0]


def test_smallest_group() -> None:
    # Of k rows some are right or none is: the chance is 1 or 0, so nothing deviates from it.
    assert [PassAtK(k=k).smallest_group for k in (1, 2, 8)] == [2, 3, 9]
    assert PassAtK().compares


def test_a_threshold_makes_other_rewards_right_or_wrong() -> None:
    graded = PassAtK(k=2, correct=0.5)(reward_table([[0.5, 0.25, -3.0, 0.0], [0.75, 0.5, 0.0, 0.0]]))
    binary = PassAtK(k=2)(reward_table([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]))
    assert graded.tolist() == binary.tolist()


def test_other_rewards_without_a_threshold_are_an_error_that_names_the_row() -> None:
    with pytest.raises(RewardError, match=r"pass_at_k.* member 1 of group 1 has 0\.5; set correct"):
        PassAtK(k=2)(reward_table([[1.0, None], [1.0, 0.5]]))


def test_rows_that_do_not_count_may_have_any_reward() -> None:
    assert PassAtK(k=1)(reward_table([[1.0, 0.0, 0.5]], lengths=[1, 1, 0])).tolist() == [1.0, -1.0, 0.0]


def test_large_groups_lose_no_digits() -> None:
    # One right of 512, k = 2: R = 2/512, so sqrt((1 - R) / R) = sqrt(255).
    found = PassAtK(k=2)(reward_table([[1.0] + [0.0] * 511]))
    assert found[0].item() == pytest.approx(math.sqrt(255), rel=1e-15)
    assert found[1].item() == pytest.approx(-math.sqrt(255) / 511, rel=1e-15)


@pytest.mark.parametrize("k", [1, 2, 4, 16])
@formula_cases
@given(table=tables(binary=True))
def test_equals_its_formula(k: int, table: RolloutTable) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    for group in exact_groups(table):
        size, wrong = group.size, sum(reward == 0 for reward in group.rewards)
        if size < max(k, 2):
            continue
        mean = 1 - Fraction(choose(wrong, k), choose(size, k))
        sigma = root(mean * (1 - mean))
        if sigma == 0:
            continue
        for row, reward in zip(group.rows, group.rewards, strict=True):
            if reward == 1:
                wanted[row] = (1 - mean) / Fraction(sigma)
            else:
                wanted[row] = (1 - mean - Fraction(choose(wrong - 1, k - 1), choose(size - 1, k - 1))) / Fraction(sigma)
    # Two quotients, a root and a product here; a root in the reference.
    expect_near(PassAtK(k=k)(table), wanted, [6 * ROUND * abs(float(each)) for each in wanted])


def test_formula_shows_its_numbers() -> None:
    text = PassAtK(k=4).formula().text
    assert text.startswith("A_i = (1 - R) / s if r_i = 1, else (1 - R - C(N - 1, 3) / C(G - 1, 3)) / s")
    assert "R = 1 - C(N, 4) / C(G, 4)" in text
    assert "if r_i >= 0.5" in PassAtK(correct=0.5).formula().text


@pytest.mark.parametrize(("setting", "value"), [("k", 0), ("correct", math.nan), ("correct", math.inf)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        PassAtK(**{setting: value})
    assert error.value.setting == setting
