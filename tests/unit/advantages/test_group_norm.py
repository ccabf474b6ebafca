from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.errors import ConfigError
from helpers.tables import reward_table


def reference(
    groups: list[list[float]], ddof: int = 1, eps: float = 1e-6, std_floor: float = 0.0, scale: str = "group"
) -> list[float]:
    """The formula, row by row."""
    everything = [reward for rows in groups for reward in rows]
    result = []
    for rows in groups:
        mean = math.fsum(rows) / len(rows)
        pool = rows if scale == "group" else everything
        middle = math.fsum(pool) / len(pool)
        variance = math.fsum((reward - middle) ** 2 for reward in pool) / max(len(pool) - ddof, 1)
        divisor = 1.0 if scale == "none" else max(math.sqrt(variance), std_floor) + eps
        silent = len(rows) < 2 or max(rows) - min(rows) <= 4 * 2.0**-52 * max(map(abs, rows))
        result += [0.0 if silent else (reward - mean) / divisor for reward in rows]
    return result


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


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.lists(st.integers(-4, 4).map(lambda i: i / 3), min_size=1, max_size=6), min_size=1, max_size=5),
    ddof=st.sampled_from([0, 1]),
    eps=st.sampled_from([1e-6, 0.5]),
    std_floor=st.sampled_from([0.0, 0.3]),
    scale=st.sampled_from(["group", "rollout", "none"]),
)
def test_equals_the_formula(groups: list[list[float]], ddof: int, eps: float, std_floor: float, scale: Any) -> None:
    table = reward_table(groups)
    expected = torch.tensor(reference(groups, ddof, eps, std_floor, scale), dtype=torch.float64)
    advantages = GroupNorm(ddof=ddof, eps=eps, std_floor=std_floor, scale=scale)(table)
    torch.testing.assert_close(advantages, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("ddof", 2), ("ddof", -1), ("eps", -1e-9), ("eps", math.nan), ("std_floor", -1.0), ("scale", "batch")],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GroupNorm(**{setting: value})
    assert error.value.setting == setting
