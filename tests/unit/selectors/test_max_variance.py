from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.errors import ConfigError
from grpo_lightning.selectors.max_variance import MaxVariance
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.tables import reward_table


def variance(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((each - mean) ** 2 for each in values) / len(values)


@formula_cases
@given(table=tables(largest=9), keep=st.integers(2, 6))
def test_equals_its_formula(table: RolloutTable, keep: int) -> None:
    """The variance is the largest of all subsets of that size."""
    kept = MaxVariance(keep=keep).subset(table)
    assert not (kept & ~table.valid_R).any()
    for group in set(table.group_R.tolist()):
        inside = table.valid_R & (table.group_R == group)
        values = table.rewards_R[inside].tolist()
        chosen = table.rewards_R[inside & kept].tolist()
        assert len(chosen) == min(keep, len(values))
        if len(values) > keep:
            best = max(variance(list(subset)) for subset in combinations(values, keep))
            # Both are sums of squared differences of the rewards as they are: off by the square of their rounding.
            slack = (1e-15 * max(map(abs, values))) ** 2
            assert variance(chosen) >= best * (1 - 1e-8) - slack


def kept(rewards: list[float | None], keep: int) -> list[int]:
    return MaxVariance(keep=keep).subset(reward_table([rewards])).nonzero().squeeze(1).tolist()


def test_extremes_are_kept_by_hand() -> None:
    assert kept([0.2, 0.9, 0.5, 0.0], 2) == [1, 3]
    # Of 0, 1, 9, 10 the two ends with 9 (variance 182/9) or with 1 (the same): the more high ones.
    assert kept([0.0, 1.0, 9.0, 10.0], 3) == [0, 2, 3]
    # Three are low and one is high: a high one and a low one; a second low one rather than the middle.
    assert kept([0.0, 0.1, 10.0, 0.0, 5.0], 3) == [0, 2, 3]


def test_half_of_each_when_rewards_are_0_and_1() -> None:
    assert kept([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0], 4) == [0, 1, 2, 3]
    assert kept([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], 4) == [0, 1, 2, 5]


def test_ties_go_to_the_smaller_member() -> None:
    assert kept([0.5] * 5, 3) == [0, 1, 2]
    table = reward_table([[1.0, 1.0, 0.0, 0.0]])
    order = torch.tensor([1, 0, 3, 2])
    subset = MaxVariance(keep=2).subset(table.select(order))
    assert table.member_R[order][subset].tolist() == [0, 2]


def test_small_groups_keep_all_their_valid_rows() -> None:
    table = reward_table([[1.0, None, 0.0], [None, None], [3.0, 2.0, 1.0, 0.0]], lengths=[1] * 8 + [0])
    assert MaxVariance(keep=3).subset(table).tolist() == [
        True, False, True, False, False, True, True, True, False,
    ]  # fmt: skip
    assert MaxVariance(keep=2).subset(table).tolist() == [
        True, False, True, False, False, True, False, True, False,
    ]  # fmt: skip


def test_the_subset_trains_and_nothing_is_drawn_again() -> None:
    selector, table = MaxVariance(keep=2), reward_table([[0.0, 1.0, 0.5, 2.0]])
    selection = selector(torch.ones(4, dtype=torch.float64), table, 0)
    assert selection.keep_R.tolist() == [True, False, False, True]
    assert selection.redraw.tolist() == []
    chosen = replace(table, valid_R=selector.subset(table))
    assert selector(torch.ones(4, dtype=torch.float64), chosen, 0).keep_R.tolist() == [True, False, False, True]


def test_advantages_compare_the_kept_rows() -> None:
    table = reward_table([[0.0, 1.0, 0.5, 2.0]])
    chosen = replace(table, valid_R=MaxVariance(keep=2).subset(table))
    assert GroupNorm(scale="none")(chosen).tolist() == [-1.0, 0.0, 0.0, 1.0]


def test_an_empty_table() -> None:
    assert MaxVariance(keep=2).subset(reward_table([])).tolist() == []


@pytest.mark.parametrize("value", [1, 0, -3])
def test_wrong_values_are_refused_by_name(value: int) -> None:
    with pytest.raises(ConfigError) as error:
        MaxVariance(keep=value)
    assert error.value.setting == "keep"
