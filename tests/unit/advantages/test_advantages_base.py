"""The rules for degenerate groups, for every estimator that comes with the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.advantages import Advantage, GroupNorm, LeaveOneOut, MeanCentered, RankBased
from grpo_lightning.advantages.gdpo import GDPO
from grpo_lightning.advantages.gpg import GPG
from grpo_lightning.advantages.lite_ppo import LitePPO
from grpo_lightning.advantages.max_minus_second import MaxMinusSecond
from grpo_lightning.advantages.maxrl import MaxRL
from grpo_lightning.advantages.opo import OPO
from grpo_lightning.advantages.pass_at_k import PassAtK
from grpo_lightning.advantages.pkpo import PKPO
from grpo_lightning.advantages.reinforce_plus_plus_baseline import ReinforcePlusPlusBaseline
from grpo_lightning.formula import Formula
from helpers.tables import reward_table

ESTIMATORS: dict[str, Callable[[], Advantage]] = {
    "group_norm": GroupNorm,
    "group_norm/population/no eps": lambda: GroupNorm(ddof=0, eps=0.0),
    "group_norm/rollout": lambda: GroupNorm(scale="rollout"),
    "group_norm/rollout/no eps": lambda: GroupNorm(scale="rollout", eps=0.0),
    "group_norm/none": lambda: GroupNorm(scale="none"),
    "mean_centered": MeanCentered,
    "leave_one_out": LeaveOneOut,
    "rank_based": RankBased,
    "rank_based/normal": lambda: RankBased(score="normal"),
    "opo": OPO,
    "gpg": GPG,
    "lite_ppo": LitePPO,
    "gdpo": GDPO,
    "reinforce_plus_plus_baseline": ReinforcePlusPlusBaseline,
    "reinforce_plus_plus_baseline/rows": lambda: ReinforcePlusPlusBaseline(over="rows"),
}
"""Those that give every row of a group with a difference a value, on any reward."""
BINARY: dict[str, Callable[[], Advantage]] = {
    **ESTIMATORS,
    "max_minus_second": MaxMinusSecond,
    "max_minus_second/group": lambda: MaxMinusSecond(scale="group"),
    "maxrl": MaxRL,
    "pass_at_k": lambda: PassAtK(k=2),
    "pass_at_k/threshold": lambda: PassAtK(k=1, correct=0.5),
    "pkpo": lambda: PKPO(k=2),
}
"""Those and the ones that want rewards of 0 and 1, or speak for few rows."""
binary = pytest.mark.parametrize("make", BINARY.values(), ids=BINARY.keys())
every = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS.keys())
SCALE_FREE = ["group_norm/population/no eps", "group_norm/rollout/no eps", "rank_based", "rank_based/normal"]
LINEAR = ["group_norm/none", "mean_centered", "leave_one_out", "opo", "gpg"]


@every
def test_estimators_compare_rows_of_a_group(make: Callable[[], Advantage]) -> None:
    assert make().compares
    assert make().per == "row"


@every
@pytest.mark.parametrize("reward", [0.1, 0.3, 0.7, 1 / 3, -0.1, 0.0, 1e-6, 1e6])
@pytest.mark.parametrize("size", [2, 3, 7, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_are_exactly_zero(
    make: Callable[[], Advantage], reward: float, size: int, dtype: torch.dtype
) -> None:
    advantages = make()(reward_table([[reward] * size, [0.0, 1.0]], dtype=dtype))
    assert advantages[:size].tolist() == [0.0] * size
    assert (advantages[size:] != 0).all()


@every
def test_rewards_equal_up_to_float64_rounding_are_exactly_zero(make: Callable[[], Advantage]) -> None:
    assert 0.1 + 0.2 != 0.3
    assert make()(reward_table([[0.1 + 0.2, 0.3, 0.3]])).tolist() == [0.0, 0.0, 0.0]


@every
def test_rewards_equal_up_to_float32_rounding_are_zero_only_if_they_came_in_float32(
    make: Callable[[], Advantage],
) -> None:
    next_above = torch.nextafter(torch.tensor(0.7), torch.tensor(1.0)).item()
    rewards: list[list[float | None]] = [[torch.tensor(0.7).item(), next_above, next_above]]
    assert make()(reward_table(rewards, dtype=torch.float32)).tolist() == [0.0, 0.0, 0.0]
    assert (make()(reward_table(rewards, dtype=torch.float64)) != 0).all()


@every
def test_groups_of_one_are_zero(make: Callable[[], Advantage]) -> None:
    advantages = make()(reward_table([[5.0], [1.0, 0.0], [-3.0]]))
    assert advantages[[0, 3]].tolist() == [0.0, 0.0]
    assert (advantages[[1, 2]] != 0).all()
    assert make()(reward_table([[5.0]])).tolist() == [0.0]


@every
def test_abstaining_rows_leave_the_statistics(make: Callable[[], Advantage]) -> None:
    with_abstention = make()(reward_table([[1.0, None, 0.0, 0.25], [0.0, 2.0]]))
    without = make()(reward_table([[1.0, 0.0, 0.25], [0.0, 2.0]]))
    assert with_abstention[1] == 0.0
    assert with_abstention[[0, 2, 3, 4, 5]].tolist() == without.tolist()


@every
def test_rows_without_steps_leave_the_statistics(make: Callable[[], Advantage]) -> None:
    with_empty = make()(reward_table([[1.0, 9.0, 0.0]], lengths=[2, 0, 2]))
    assert with_empty.tolist() == [with_empty[0], 0.0, with_empty[2]]
    assert with_empty[[0, 2]].tolist() == make()(reward_table([[1.0, 0.0]])).tolist()


@every
def test_a_group_that_abstention_shrinks_to_one_is_zero(make: Callable[[], Advantage]) -> None:
    assert make()(reward_table([[1.0, None, None], [None, None]])).tolist() == [0.0] * 5


@every
def test_a_table_where_all_abstain_and_an_empty_one(make: Callable[[], Advantage]) -> None:
    assert make()(reward_table([[None, None]])).tolist() == [0.0, 0.0]
    assert make()(reward_table([])).shape == (0,)


@every
def test_groups_are_known_by_ordinal_not_by_prompt_or_place(make: Callable[[], Advantage]) -> None:
    table = reward_table([[1.0, 0.0, 0.25], [0.5, 0.75]])
    one_prompt = replace(table, prompt_R=torch.zeros(5, dtype=torch.int64))
    assert make()(one_prompt).tolist() == make()(table).tolist()
    mixed = torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(make()(table.select(mixed)), make()(table)[mixed], rtol=1e-12, atol=1e-15)


GROUPS = st.lists(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=9), max_size=6)


@every
@settings(max_examples=40, deadline=None)
@given(groups=GROUPS, seed=st.integers(0, 2**31))
def test_values_are_finite_in_float64_add_up_to_zero_and_follow_their_rows(
    make: Callable[[], Advantage], groups: list[list[float | None]], seed: int
) -> None:
    table = reward_table(groups)
    advantages = make()(table)
    assert advantages.dtype == torch.float64
    assert advantages.isfinite().all()
    start = 0
    for rows in groups:
        part = advantages[start : start + len(rows)].tolist()
        assert abs(math.fsum(part)) <= 1e-9 * (1.0 + max(map(abs, part)))
        start += len(rows)
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(make()(table.select(order)), advantages[order], rtol=1e-6, atol=1e-6)


REWARDS: list[list[float]] = [[0.0, 1.0, 0.25], [1.0, 1.0, 0.0, 0.5, 0.125], [2.0, -1.0]]


@every
@pytest.mark.parametrize("shift", [-7.5, 0.1, 1000.0])
def test_a_constant_added_to_all_rewards_changes_nothing(make: Callable[[], Advantage], shift: float) -> None:
    shifted = make()(reward_table([[reward + shift for reward in rows] for rows in REWARDS]))
    torch.testing.assert_close(shifted, make()(reward_table(REWARDS)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", SCALE_FREE)
@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e6])
def test_scale_free_estimators(name: str, scale: float) -> None:
    scaled = ESTIMATORS[name]()(reward_table([[reward * scale for reward in rows] for rows in REWARDS]))
    torch.testing.assert_close(scaled, ESTIMATORS[name]()(reward_table(REWARDS)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e6])
def test_linear_estimators(name: str, scale: float) -> None:
    scaled = ESTIMATORS[name]()(reward_table([[reward * scale for reward in rows] for rows in REWARDS]))
    torch.testing.assert_close(scaled / scale, ESTIMATORS[name]()(reward_table(REWARDS)), rtol=1e-9, atol=1e-12)


@binary
@pytest.mark.parametrize("reward", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_right_or_all_wrong_is_exactly_zero(
    make: Callable[[], Advantage], reward: float, dtype: torch.dtype
) -> None:
    found = make()(reward_table([[reward] * 5, [0.0, 1.0, 0.0], [1.0], [None, None, 0.0]], dtype=dtype))
    assert found[[0, 1, 2, 3, 4, 8, 9, 10, 11]].tolist() == [0.0] * 9
    assert found[6] > 0
    assert found.dtype == torch.float64
    assert make().compares


@binary
def test_rows_that_abstain_or_are_empty_leave_the_statistics_of_binary_rewards(make: Callable[[], Advantage]) -> None:
    with_them = make()(reward_table([[1.0, None, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], lengths=[3, 3, 3, 3, 0, 3, 3, 3]))
    without = make()(reward_table([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    assert with_them[[1, 4]].tolist() == [0.0, 0.0]
    assert with_them[[0, 2, 3, 5, 6, 7]].tolist() == without.tolist()


@binary
def test_no_rows_and_only_abstaining_ones(make: Callable[[], Advantage]) -> None:
    assert make()(reward_table([[None, None], [None]])).tolist() == [0.0] * 3
    assert make()(reward_table([])).shape == (0,)


@binary
def test_equations_are_written_out(make: Callable[[], Advantage]) -> None:
    formula = make().formula()
    assert isinstance(formula, Formula)
    assert formula.text.startswith("A_i = ")
    assert formula.latex.startswith("A_i = ")
    assert formula.latex.count("{") == formula.latex.count("}")
    assert formula.symbols
