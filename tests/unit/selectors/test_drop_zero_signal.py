from __future__ import annotations

import torch

from grpo_lightning.selectors.drop_zero_signal import DropZeroSignal
from grpo_lightning.types import RolloutTable
from helpers.tables import reward_table


def kept(advantages: list[float], table: RolloutTable) -> list[bool]:
    selection = DropZeroSignal()(torch.tensor(advantages, dtype=torch.float64), table, 0)
    assert selection.redraw.tolist() == []
    return selection.keep_R.tolist()


def test_silent_groups_are_dropped_and_rows_of_advantage_zero_in_others_kept() -> None:
    table = reward_table([[1.0, 1.0], [1.0, 0.5, 0.0], [0.0, 0.0]])
    assert kept([0.0, 0.0, 0.5, 0.0, -0.5, 0.0, -0.0], table) == [False, False, True, True, True, False, False]


def test_the_smallest_signal_is_signal() -> None:
    assert kept([5e-324, 0.0], reward_table([[1.0, 0.0]])) == [True, True]


def test_rows_that_abstain_are_never_kept_and_give_no_signal() -> None:
    table = reward_table([[1.0, None, 0.0], [None, 1.0]])
    assert kept([0.5, 0.0, -0.5, 0.5, 0.0], table) == [True, False, True, False, False]


def test_all_groups_may_be_silent() -> None:
    assert kept([0.0, 0.0, 0.0], reward_table([[1.0, 1.0], [None]])) == [False, False, False]


def test_groups_need_not_lie_together() -> None:
    table = reward_table([[1.0, 0.0], [1.0, 1.0]]).select(torch.tensor([0, 2, 3, 1]))
    assert kept([0.5, 0.0, 0.0, -0.5], table) == [True, False, False, True]
