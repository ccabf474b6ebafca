from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import (
    centering_error,
    deviation_error,
    exact_groups,
    expect_near,
    quotient_error,
    root,
    says_nothing,
)
from helpers.tables import reward_table


def std_of(values: Sequence[Fraction], ddof: int) -> float:
    mean = sum(values, Fraction(0)) / len(values)
    return root(sum(((value - mean) ** 2 for value in values), Fraction(0)) / (len(values) - ddof))


def test_sample_standard_deviation_by_hand() -> None:
    # [1, 0, 0, 0]: mean 1/4, squares 9/16 + 3/16 = 3/4, sample variance 1/4, so std 1/2.
    advantages = GroupNorm(eps=0.0)(reward_table([[1.0, 0.0, 0.0, 0.0]]))
    torch.testing.assert_close(advantages, torch.tensor([1.5, -0.5, -0.5, -0.5], dtype=torch.float64))


def test_population_standard_deviation_by_hand() -> None:
    # [0, 2]: mean 1, population std 1. [1, 1, 4, 6]: mean 3, squares 4 + 4 + 1 + 9 = 18, variance 9/2.
    advantages = GroupNorm(ddof=0, eps=0.0)(reward_table([[0.0, 2.0], [1.0, 1.0, 4.0, 6.0]]))
    root = math.sqrt(4.5)
    expected = [-1.0, 1.0, -2 / root, -2 / root, 1 / root, 3 / root]
    torch.testing.assert_close(advantages, torch.tensor(expected, dtype=torch.float64))


def test_eps_and_floor_by_hand() -> None:
    table = reward_table([[0.0, 2.0]])  # population std 1
    assert GroupNorm(ddof=0, eps=1.0)(table).tolist() == [-0.5, 0.5]
    assert GroupNorm(ddof=0, eps=0.0, std_floor=4.0)(table).tolist() == [-0.25, 0.25]
    assert GroupNorm(ddof=0, eps=1.0, std_floor=3.0)(table).tolist() == [-0.25, 0.25]
    assert GroupNorm(ddof=0, eps=0.0, std_floor=0.5)(table).tolist() == [-1.0, 1.0]


def test_scale_of_the_rollout_by_hand() -> None:
    # All rewards [0, 2, 4, 6]: mean 3, squares 9 + 1 + 1 + 9 = 20, sample variance 20/3.
    advantages = GroupNorm(eps=0.0, scale="rollout")(reward_table([[0.0, 2.0], [4.0, 6.0]]))
    step = 1 / math.sqrt(20 / 3)
    torch.testing.assert_close(advantages, torch.tensor([-step, step, -step, step], dtype=torch.float64))


def test_rollout_statistics_leave_out_rows_that_abstain() -> None:
    normed = GroupNorm(scale="rollout")(reward_table([[0.0, 2.0, None], [4.0, 6.0], [None]]))
    assert normed[[0, 1, 3, 4]].tolist() == GroupNorm(scale="rollout")(reward_table([[0.0, 2.0], [4.0, 6.0]])).tolist()


def test_silent_groups_count_in_the_rollout_standard_deviation() -> None:
    # All rewards [0, 2, 1, 1]: mean 1, squares 2, population variance 1/2.
    advantages = GroupNorm(ddof=0, eps=0.0, scale="rollout")(reward_table([[0.0, 2.0], [1.0, 1.0]]))
    torch.testing.assert_close(advantages, torch.tensor([-(2**0.5), 2**0.5, 0.0, 0.0], dtype=torch.float64))


def test_no_scale_is_the_centred_reward() -> None:
    assert GroupNorm(scale="none")(reward_table([[1.0, 0.0, 0.5]])).tolist() == [0.5, -0.5, 0.0]


def test_the_smallest_rewards_are_not_lost_without_eps() -> None:
    advantages = GroupNorm(ddof=0, eps=0.0)(reward_table([[1e-6, 3e-6], [1e6, 3e6]]))
    torch.testing.assert_close(advantages, torch.tensor([-1.0, 1.0, -1.0, 1.0], dtype=torch.float64))


def test_eps_damps_groups_that_barely_disagree() -> None:
    # population std 1e-6 and eps 1e-6
    advantages = GroupNorm(ddof=0)(reward_table([[1e-6, 3e-6]]))
    torch.testing.assert_close(advantages, torch.tensor([-0.5, 0.5], dtype=torch.float64))


MODES: list[dict[str, Any]] = [
    {},
    {"ddof": 0, "eps": 0.0},
    {"std_floor": 0.3},
    {"scale": "rollout"},
    {"scale": "rollout", "ddof": 0, "eps": 0.5},
    {"scale": "none"},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@formula_cases
@given(table=tables())
def test_equals_its_formula(mode: dict[str, Any], table: RolloutTable) -> None:
    given_ = {"ddof": 1, "eps": 1e-6, "std_floor": 0.0, "scale": "group", **mode}
    groups = exact_groups(table)
    everything = [reward for group in groups for reward in group.rewards]
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in groups:
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        error = centering_error(group.size, group.spread)
        divisor, divisor_error = 1.0, 0.0
        if given_["scale"] != "none":
            pool = group.rewards if given_["scale"] == "group" else everything
            std = std_of(pool, given_["ddof"])
            divisor = max(std, given_["std_floor"]) + given_["eps"]
            divisor_error = deviation_error(centering_error(len(pool), max(pool) - min(pool)), len(pool), std)
        for row, reward in zip(group.rows, group.rewards, strict=True):
            wanted[row] = (reward - group.mean) / Fraction(divisor)
            bounds[row] = quotient_error(error, float(wanted[row]), divisor, divisor_error)
    expect_near(GroupNorm(**mode)(table), wanted, bounds)


def test_formula_shows_its_numbers() -> None:
    assert GroupNorm(eps=0.25).formula().text == "A_i = (r_i - mean_g) / (std_g + 0.25)"
    assert (
        GroupNorm(std_floor=0.5, scale="rollout").formula().text == "A_i = (r_i - mean_g) / (max(std_B, 0.5) + 1e-06)"
    )
    assert GroupNorm(scale="none").formula().latex == r"A_i = r_i - \bar r_g"
    assert "ddof 0" in GroupNorm(ddof=0).formula().symbols["std_g"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("ddof", 2), ("ddof", -1), ("eps", -1e-9), ("eps", math.nan), ("std_floor", -1.0), ("scale", "batch")],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GroupNorm(**{setting: value})
    assert error.value.setting == setting
