"""The table of rows, and the rows of other ranks in it."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.rollout import world
from grpo_lightning.rollout.table import gather_table, local_table
from grpo_lightning.types import Episode, FinishReason, Prompt, Turn
from helpers.hand_loss import HandRow, to_collected
from helpers.tables import reward_table
from helpers.tiny_policy import text_prompt


def test_local_table() -> None:
    rows = [HandRow(4, [3], [5, 6, 7], [True, False, True], 0.0, mu=[0.0] * 3), HandRow(4, [3], [5], [True], 0.0, mu=[0.0]),
            HandRow(6, [4], [], [], 0.0, truncated=True), HandRow(6, [4], [8], [True], 0.0, mu=[0.0])]  # fmt: skip
    rollouts = to_collected(rows).rollouts
    turn = Turn([5], "x", FinishReason.STOP)
    episodes = [Episode(text_prompt("a", 11 + index // 2), row.group, index % 2, [turn] * (1 + index % 2)) for index, row in
                enumerate(rows)]  # fmt: skip
    rewards_R = torch.tensor([1.0, torch.nan, 2.0, 3.0], dtype=torch.float64)
    table = local_table(rollouts, episodes, rewards_R, {"exact": rewards_R * 2}, 1e-7)
    assert table.group_R.tolist() == [4, 4, 6, 6]
    assert table.prompt_R.tolist() == [11, 11, 12, 12]
    assert table.member_R.tolist() == [0, 1, 0, 1]
    assert table.lengths_R.tolist() == [2, 1, 0, 1]
    assert table.turns_R.tolist() == [1, 2, 1, 2]
    assert table.finish_R.tolist() == [0, 0, 1, 0]
    # The second abstains, the third wrote nothing.
    assert table.valid_R.tolist() == [True, False, False, True]
    assert table.components["exact"].tolist()[2:] == [4.0, 6.0]
    assert table.reward_epsilon == 1e-7


def test_one_rank_has_all_rows() -> None:
    table = reward_table([[1.0, 2.0], [3.0]])
    gathered = gather_table(table)
    assert gathered.own == slice(0, 3)
    assert torch.equal(gathered.table.rewards_R, table.rewards_R)


@pytest.mark.parametrize(("rank", "own"), [(0, slice(0, 3)), (1, slice(3, 5)), (2, slice(5, 6))])
def test_rows_of_ranks_are_in_the_order_of_ranks(monkeypatch: pytest.MonkeyPatch, rank: int, own: slice) -> None:
    tables = [reward_table([[1.0, 2.0], [3.0]]), reward_table([[4.0, 5.0]], dtype=torch.float32), reward_table([[6.0]])]
    monkeypatch.setattr(world, "gather", lambda value: tables)
    monkeypatch.setattr(world, "rank", lambda: rank)
    gathered = gather_table(tables[rank])
    assert gathered.table.rewards_R.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert gathered.own == own
    assert gathered.local(gathered.table.rewards_R).tolist() == tables[rank].rewards_R.tolist()
    assert gathered.table.reward_epsilon == torch.finfo(torch.float32).eps


def test_prompts_of_two_data_sets_have_two_ids() -> None:
    rows = [HandRow(4, [3], [5], [True], 0.0, mu=[0.0]), HandRow(6, [4], [8], [True], 0.0, mu=[0.0])]
    turn = Turn([5], "x", FinishReason.STOP)
    episodes = [
        Episode(Prompt(name, 7, "?", {}), row.group, 0, [turn])
        for name, row in zip(("sums", "products"), rows, strict=True)
    ]
    table = local_table(to_collected(rows).rollouts, episodes, torch.zeros(2), {}, 2.0**-52)
    assert table.prompt_R[0] != table.prompt_R[1]
