from __future__ import annotations

import torch

from grpo_lightning.selectors.all_groups import AllGroups
from helpers.tables import reward_table


def test_every_valid_row_is_kept_and_nothing_drawn_again() -> None:
    table = reward_table([[1.0, None], [0.5, 0.5], [0.0, 0.0]], lengths=[2, 2, 2, 2, 0, 2])
    selection = AllGroups()(torch.zeros(6, dtype=torch.float64), table, 0)
    assert selection.keep_R.tolist() == [True, False, True, True, False, True]
    assert selection.redraw.tolist() == []
    assert selection.redraw.dtype == torch.int64


def test_an_empty_table() -> None:
    assert AllGroups()(torch.zeros(0, dtype=torch.float64), reward_table([]), 0).keep_R.tolist() == []
