from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.advantages.leave_one_out import LeaveOneOut
from helpers.tables import reward_table


def test_by_hand() -> None:
    # [1, 0, 0]: the others of the first have mean 0, of the second 1/2. [0, 4]: 4 and 0.
    advantages = LeaveOneOut()(reward_table([[1.0, 0.0, 0.0], [0.0, 4.0]]))
    torch.testing.assert_close(advantages, torch.tensor([1.0, -0.5, -0.5, -4.0, 4.0], dtype=torch.float64))


@settings(max_examples=60, deadline=None)
@given(groups=st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=7), min_size=1, max_size=5))
def test_is_the_reward_minus_the_mean_of_the_others(groups: list[list[int]]) -> None:
    expected = [
        reward - (sum(rows) - reward) / (len(rows) - 1) if min(rows) < max(rows) else 0.0
        for rows in groups
        for reward in rows
    ]
    advantages = LeaveOneOut()(reward_table([[float(reward) for reward in rows] for rows in groups]))
    torch.testing.assert_close(advantages, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_one_row_does_not_move_its_own_baseline() -> None:
    before = LeaveOneOut()(reward_table([[1.0, 0.0, 0.5]]))
    after = LeaveOneOut()(reward_table([[3.0, 0.0, 0.5]]))
    assert (after - before)[0].item() == 2.0
