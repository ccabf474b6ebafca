from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.remax import ReMax
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases
from helpers.rollout_steps import StepRow, rollouts, rounding, step_row, steps_of, table_of


@formula_cases
@given(case=rollouts(), draws=st.lists(st.sampled_from([0.0, 0.3, 1.0, -2.0, None]), min_size=4, max_size=4))
def test_equals_its_formula(case: tuple[RolloutTable, list[StepRow]], draws: list[float | None]) -> None:
    table, rows = case
    greedy = [math.nan if each is None else each for each in draws]
    expected = []
    for row in rows:
        for step in range(row.length):
            ahead = 0.0
            for reward in row.rewards[step:]:
                ahead += reward
            counts = row.valid and not math.isnan(greedy[row.group])
            expected.append(ahead - greedy[row.group] if counts else 0.0)
    rewards_R = torch.tensor([greedy[row.group] for row in rows], dtype=torch.float64)
    found = ReMax()(replace(table, greedy_rewards_R=rewards_R), steps_of(rows))
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=rounding(rows) + 1e-15
    )


def test_every_step_has_the_distance_from_the_greedy_completion() -> None:
    rows = [step_row(0, [0.0, 0.0, 1.0]), step_row(0, [0.0]), step_row(1, [0.0, 0.5])]
    advantages = ReMax()(table_of(rows, greedy=[0.25, 0.25, 0.5]), steps_of(rows))
    assert advantages.tolist() == [0.75, 0.75, 0.75, -0.25, 0.0, 0.0]


def test_a_penalty_is_paid_by_the_steps_up_to_it() -> None:
    rows = [step_row(0, [-0.5, -0.25, 1.0])]
    assert ReMax()(table_of(rows, greedy=[1.0]), steps_of(rows)).tolist() == [-0.75, -0.25, 0.0]


def test_equal_rewards_and_groups_of_one_keep_their_distance() -> None:
    rows = [step_row(0, [1.0]), step_row(0, [1.0]), step_row(1, [1.0])]
    assert ReMax()(table_of(rows, greedy=[0.0, 0.0, 0.5]), steps_of(rows)).tolist() == [1.0, 1.0, 0.5]


def test_a_greedy_completion_that_abstains_leaves_nothing_to_compare_with() -> None:
    rows = [step_row(0, [0.0, 1.0]), step_row(1, [1.0]), step_row(1, [math.nan], valid=False)]
    assert ReMax()(table_of(rows, greedy=[math.nan, 0.0, 0.0]), steps_of(rows)).tolist() == [0.0, 0.0, 1.0, 0.0]


def test_says_what_it_lacks() -> None:
    rows = [step_row(0, [1.0])]
    with pytest.raises(ValueError, match="greedy_rewards_R"):
        ReMax()(table_of(rows), steps_of(rows))
    with pytest.raises(ValueError, match="without steps"):
        ReMax()(table_of(rows, greedy=[0.0]))


def test_declares_what_it_needs() -> None:
    assert (ReMax.greedy, ReMax.per, ReMax.compares) == (True, "step", False)
    assert ReMax().formula().text == "A_it = sum_{s>=t} r_is - b_g"
