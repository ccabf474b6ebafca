from __future__ import annotations

import pytest
import torch

from grpo_lightning.advantages.leave_one_out import LeaveOneOut
from grpo_lightning.advantages.mean_centered import MeanCentered
from helpers.tables import reward_table


def test_by_hand() -> None:
    # Means 1/4, 2 and 1.
    advantages = MeanCentered()(reward_table([[1.0, 0.0, 0.0, 0.0], [0.0, 4.0], [0.5, 1.0, 1.5]]))
    assert advantages.tolist() == [0.75, -0.25, -0.25, -0.25, -2.0, 2.0, -0.5, 0.0, 0.5]


@pytest.mark.parametrize("size", [2, 3, 8])
def test_is_leave_one_out_up_to_a_factor_of_the_size(size: int) -> None:
    table = reward_table([[float(i * i) for i in range(size)]])
    torch.testing.assert_close(MeanCentered()(table), LeaveOneOut()(table) * (size - 1) / size)
