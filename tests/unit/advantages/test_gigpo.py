from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.gigpo import GiGPO
from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases
from helpers.rollout_steps import StepRow, on_two_ranks, rollouts, rounding, step_row, steps_of, table_of


def part(pool: list[float], value: float, epsilon: float, scale: str, ddof: int, eps: float) -> tuple[float, float]:
    """``value`` against ``pool``, which holds it, and what it is divided by."""
    mean = math.fsum(pool) / len(pool)
    std = math.sqrt(math.fsum((each - mean) ** 2 for each in pool) / max(len(pool) - ddof, 1))
    divisor = std + eps if scale == "std" else 1.0
    silent = len(pool) < 2 or max(pool) - min(pool) <= 4 * epsilon * max(map(abs, pool))
    return (0.0 if silent else (value - mean) / divisor), divisor


def turn_returns(row: StepRow, gamma: float) -> dict[int, float]:
    """Discounted return of each turn."""
    earned: dict[int, float] = defaultdict(float)
    for reward, turn in zip(row.rewards, row.turns, strict=True):
        earned[turn] += reward
    return {
        turn: sum(gamma ** (later - turn) * value for later, value in earned.items() if later >= turn)
        for turn in earned
    }


def reference(
    table: RolloutTable, rows: list[StepRow], omega: float, gamma: float, scale: str, ddof: int, eps: float
) -> tuple[list[float], list[float]]:
    """The formula, step by step, and what each may be off by."""
    epsilon = table.reward_epsilon
    returns = [turn_returns(row, gamma) if row.valid else {} for row in rows]
    episodes, states = defaultdict(list), defaultdict(list)
    for index, row in enumerate(rows):
        if not row.valid:
            continue
        episodes[row.group].append(float(table.rewards_R[index]))
        for turn in returns[index]:
            states[row.group, row.states[row.turns.index(turn)]].append(returns[index][turn])
    advantages, tolerances = [], []
    for index, row in enumerate(rows):
        for step in range(row.length):
            if not row.valid:
                advantages.append(0.0)
                tolerances.append(0.0)
                continue
            whole, first = part(episodes[row.group], float(table.rewards_R[index]), epsilon, scale, ddof, eps)
            turn, second = 0.0, 1.0
            if row.states[step] >= 0:
                pool = states[row.group, row.states[step]]
                turn, second = part(pool, returns[index][row.turns[step]], epsilon, scale, ddof, eps)
            advantages.append(whole + omega * turn)
            # Deviations carry the rounding of what they are differences of, and so does what divides them.
            error = rounding(rows) * (1 + abs(whole)) / first + rounding(rows) * omega * (1 + abs(turn)) / second
            tolerances.append(error + 1e-14)
    return advantages, tolerances


@pytest.mark.parametrize(("scale", "ddof"), [("none", 1), ("std", 1), ("std", 0)])
@formula_cases
@given(case=rollouts(), omega=st.sampled_from([0.0, 0.5, 1.0]), gamma=st.sampled_from([0.0, 0.95, 1.0]))
def test_equals_its_formula(
    case: tuple[RolloutTable, list[StepRow]], scale: Any, ddof: int, omega: float, gamma: float
) -> None:
    table, rows = case
    found = GiGPO(omega=omega, gamma=gamma, scale=scale, ddof=ddof)(table, steps_of(rows)).tolist()
    expected, tolerances = reference(table, rows, omega, gamma, scale, ddof, 1e-6)
    assert len(found) == len(expected)
    for one, other, tolerance in zip(found, expected, tolerances, strict=True):
        assert abs(one - other) <= tolerance + 1e-10 * abs(other), (found, expected)


def test_turns_from_one_state_are_compared_by_hand() -> None:
    # Rewards 1 and 0 give the rows 1/2 and -1/2. State 5 is met twice: returns 0.5 * 1 and 0, so 1/4 and -1/4 more.
    # States 6 and 7 are met once.
    rows = [
        step_row(0, [0.0, 0.0, 1.0], turns=[0, 0, 1], states=[5, 5, 6]),
        step_row(0, [0.0, 0.0], turns=[0, 1], states=[5, 7]),
    ]
    advantages = GiGPO(gamma=0.5)(table_of(rows), steps_of(rows))
    assert advantages.tolist() == [0.75, 0.75, 0.5, -0.75, -0.5]
    weighed = GiGPO(gamma=0.5, omega=2.0)(table_of(rows), steps_of(rows))
    assert weighed.tolist() == [1.0, 1.0, 0.5, -1.0, -0.5]


def test_standard_deviations_of_both_parts_by_hand() -> None:
    # Rewards 2 and 0: sample standard deviation sqrt(2). Returns 1 and 0 from state 5: 1 / sqrt(2).
    rows = [step_row(0, [0.0, 2.0], turns=[0, 1], states=[5, -1]), step_row(0, [0.0], states=[5])]
    advantages = GiGPO(gamma=0.5, scale="std", eps=0.0)(table_of(rows), steps_of(rows))
    half = math.sqrt(0.5)
    torch.testing.assert_close(advantages, torch.tensor([2 * half, half, -2 * half], dtype=torch.float64))


def test_a_row_that_comes_back_to_a_state_is_counted_at_every_visit() -> None:
    # Returns from state 3: 1 + 0 = 1, then 0 for the same row, and 1 for the other one: mean 2/3.
    rows = [
        step_row(0, [1.0, 0.0], turns=[0, 1], states=[3, 3]),
        step_row(0, [1.0], states=[3]),
    ]
    advantages = GiGPO(gamma=1.0)(table_of(rows), steps_of(rows))
    torch.testing.assert_close(advantages, torch.tensor([1 / 3, -2 / 3, 1 / 3], dtype=torch.float64))


def test_equal_episodes_keep_the_part_of_turns() -> None:
    # Both rows earn 1; the second takes a turn more from state 0.
    rows = [step_row(0, [1.0], states=[0]), step_row(0, [0.0, 1.0], turns=[0, 1], states=[0, 1])]
    advantages = GiGPO(gamma=0.5)(table_of(rows), steps_of(rows))
    assert advantages.tolist() == [0.25, -0.25, 0.0]


def test_states_of_different_groups_are_different_states() -> None:
    rows = [step_row(group, [float(group)], states=[0]) for group in (0, 1)]
    assert GiGPO()(table_of(rows), steps_of(rows)).tolist() == [0.0, 0.0]


def test_without_repeated_states_it_is_the_distance_inside_the_group() -> None:
    rows = [step_row(0, [reward], states=[place]) for place, reward in enumerate([0.0, 1.0, 0.25])]
    table = table_of(rows)
    assert torch.equal(GiGPO()(table, steps_of(rows)), GroupNorm(scale="none")(table))
    assert torch.equal(GiGPO(scale="std")(table, steps_of(rows)), GroupNorm()(table))
    nowhere = replace(steps_of(rows), state_S=torch.full((3,), -1))
    assert torch.equal(GiGPO()(table, nowhere), GroupNorm(scale="none")(table))


def test_equal_returns_from_a_state_are_exactly_0() -> None:
    rows = [
        step_row(0, [0.1, 0.0], turns=[0, 1], states=[0, 1]),
        step_row(0, [0.1, 0.0], turns=[0, 1], states=[0, 2]),
        step_row(0, [0.1, 0.3], turns=[0, 1], states=[4, 4]),
    ]
    table = replace(table_of(rows), rewards_R=torch.ones(3, dtype=torch.float64))
    advantages = GiGPO(scale="std", eps=0.0, gamma=0.0)(table, steps_of(rows))
    assert advantages[:4].tolist() == [0.0] * 4
    assert advantages[4:].all()


def test_a_turn_in_which_the_policy_wrote_nothing_takes_time() -> None:
    rows = [step_row(0, [0.0, 1.0], turns=[0, 2], states=[0, 1]), step_row(0, [0.0], states=[0])]
    table = replace(table_of(rows), rewards_R=torch.zeros(2, dtype=torch.float64))
    assert GiGPO(gamma=0.5)(table, steps_of(rows)).tolist() == [0.125, 0.0, -0.125]


def test_a_group_that_shrank_to_one_row_has_no_first_part() -> None:
    rows = [step_row(0, [0.0, 1.0], turns=[0, 1], states=[0, 1]), step_row(0, [math.nan], states=[0], valid=False)]
    assert GiGPO()(table_of(rows), steps_of(rows)).tolist() == [0.0, 0.0, 0.0]


@formula_cases
@given(case=rollouts(), cut=st.integers(0, 4))
def test_needs_nothing_from_other_ranks(case: tuple[RolloutTable, list[StepRow]], cut: int) -> None:
    table, rows = case
    found, calls = on_two_ranks(GiGPO(), table, rows, sum(row.group < cut for row in rows))
    assert calls == [0, 0]
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float64), GiGPO()(table, steps_of(rows)), rtol=0, atol=rounding(rows)
    )


def test_says_what_it_lacks() -> None:
    rows = [step_row(0, [1.0])]
    with pytest.raises(ValueError, match=r"gives no states.*Turn\.state"):
        GiGPO()(table_of(rows), replace(steps_of(rows), state_S=None))


def test_the_equation_has_the_numbers() -> None:
    plain = "A_it = (r_i - mean_g) + 0.5 (R_ik - mean_s), R_ik = sum_{l>=k} 0.95^(l-k) r_il"
    assert GiGPO(omega=0.5).formula().text == plain
    assert "(r_i - mean_g) / (std_g + 1e-06)" in GiGPO(scale="std").formula().text


@pytest.mark.parametrize(
    ("setting", "value"),
    [("omega", -1.0), ("omega", math.inf), ("gamma", 1.5), ("scale", "group"), ("ddof", 2), ("eps", -1e-9)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GiGPO(**{setting: value})
    assert error.value.setting == setting
