from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.advantages.lite_ppo import LitePPO
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


def test_by_hand() -> None:
    # All rewards [0, 2, 4, 6]: mean 3, squares 20.
    advantages = LitePPO(eps=0.0)(reward_table([[0.0, 2.0], [4.0, 6.0]]))
    step = 1 / math.sqrt(20 / 3)
    torch.testing.assert_close(advantages, torch.tensor([-step, step, -step, step], dtype=torch.float64))


def test_groups_of_equal_rewards_count_in_the_standard_deviation() -> None:
    # All rewards [0, 2, 1, 1]: mean 1, squares 2, population variance 1/2.
    advantages = LitePPO(ddof=0, eps=0.0)(reward_table([[0.0, 2.0], [1.0, 1.0]]))
    torch.testing.assert_close(advantages, torch.tensor([-(2**0.5), 2**0.5, 0.0, 0.0], dtype=torch.float64))


def test_is_group_norm_on_the_scale_of_the_rollout() -> None:
    table = reward_table([[0.0, 2.0, None], [4.0, 6.0, 0.1], [3.0]])
    assert LitePPO()(table).tolist() == GroupNorm(scale="rollout")(table).tolist()


@pytest.mark.parametrize("mode", [{}, {"ddof": 0, "eps": 0.0}, {"eps": 0.5}], ids=str)
@formula_cases
@given(table=tables())
def test_equals_its_formula(mode: dict[str, Any], table: RolloutTable) -> None:
    ddof, eps = mode.get("ddof", 1), mode.get("eps", 1e-6)
    groups = exact_groups(table)
    pool = [reward for group in groups for reward in group.rewards]
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in groups:
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        mean = sum(pool, Fraction(0)) / len(pool)
        std = root(sum(((reward - mean) ** 2 for reward in pool), Fraction(0)) / (len(pool) - ddof))
        off = deviation_error(centering_error(len(pool), max(pool) - min(pool)), len(pool), std)
        for row, reward in zip(group.rows, group.rewards, strict=True):
            wanted[row] = (reward - group.mean) / Fraction(std + eps)
            error = centering_error(group.size, group.spread)
            bounds[row] = quotient_error(error, float(wanted[row]), std + eps, off)
    expect_near(LitePPO(**mode)(table), wanted, bounds)


def test_formula_shows_its_numbers() -> None:
    formula = LitePPO(eps=0.25, ddof=0).formula()
    assert formula.text == "A_i = (r_i - mean_g) / (std_B + 0.25)"
    assert "ddof 0" in formula.symbols["std_B"]


@pytest.mark.parametrize(("setting", "value"), [("ddof", 2), ("eps", -1.0), ("eps", math.inf)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        LitePPO(**{setting: value})
    assert error.value.setting == setting
