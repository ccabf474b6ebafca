"""Which rows share a micro-batch."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.functional.packing import pack
from grpo_lightning.rollout.micro_batches import micro_batches, row_costs, within
from grpo_lightning.types import Rollouts
from helpers.hand_loss import HandRow, to_collected


def rollouts() -> Rollouts:
    """Prompts of 4 and 6 tokens; rows of 3, 2, 1 steps in group 0 and of 5, 1 in group 1."""
    rows = [HandRow(0, [3] * 4, [4] * n, [True] * n, 1.0, mu=[0.0] * n) for n in (3, 2, 1)]
    rows += [HandRow(1, [3] * 6, [4] * n, [True] * n, 1.0, mu=[0.0] * n) for n in (5, 1)]
    return to_collected(rows).rollouts


def dealt(budget: int, rows: list[int] | None = None, **settings: object) -> list[list[int]]:
    parts = micro_batches(rollouts(), range(5) if rows is None else rows, budget, **settings)  # type: ignore[arg-type]
    return [part.tolist() for part in parts]


def test_costs_are_tokens_with_the_prompt() -> None:
    assert row_costs(rollouts(), range(5)) == [7, 6, 5, 11, 7]
    assert row_costs(rollouts(), [4, 1]) == [7, 6]


def test_rows_bring_their_prompts_along() -> None:
    assert dealt(14, shared=False) == [[3], [0, 4], [1, 2]]
    assert dealt(14, [1, 2, 4], shared=False) == [[4, 1], [2]]


def test_rows_share_their_prompt() -> None:
    # Group 1: 6 + 6 = 12; group 0: 4 + 6 = 10.
    assert dealt(12, shared=True) == [[3, 4], [0, 1, 2]]
    assert dealt(22, shared=True) == [[3, 4, 0, 1, 2]]
    # 4 + 3 + 2 fit into 9, and row 2 is left; 6 + 5 do not, so rows 3 and 4 are apart.
    assert dealt(9, shared=True) == [[3], [0, 1], [4], [2]]
    assert dealt(12, [4, 1, 0], shared=True) == [[0, 1], [4]]


@pytest.mark.parametrize("shared", [True, False])
def test_whole_groups_are_never_cut(shared: bool) -> None:
    # 12 and 10 tokens where prompts are shared, else 18 and 18.
    first, second = [3, 4], [0, 1, 2]
    assert dealt(1, shared=shared, whole_groups=True) == ([first, second] if shared else [second, first])
    assert dealt(22, shared=True, whole_groups=True) == [[3, 4, 0, 1, 2]]
    assert dealt(22, shared=False, whole_groups=True) == [[0, 1, 2], [3, 4]]


def test_of_nothing_there_are_none() -> None:
    for whole in (True, False):
        assert dealt(9, [], shared=True, whole_groups=whole) == dealt(9, [], shared=False, whole_groups=whole) == []


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_within_makes_at_most_so_many_bins(most: int) -> None:
    costs = [9, 1, 5, 5, 3, 7, 2]
    bins = within(lambda capacity: pack(costs, capacity), 8, most)
    assert len(bins) <= most
    assert sorted(index for each in bins for index in each) == list(range(7))
    assert len(micro_batches(rollouts(), range(5), 1, shared=True, most=most)) <= most


def test_within_keeps_the_budget_where_it_can() -> None:
    assert within(lambda capacity: pack([4, 4, 4], capacity), 8, 2) == [[0, 1], [2]]


def test_indices_are_int64() -> None:
    assert all(part.dtype == torch.int64 for part in micro_batches(rollouts(), range(5), 9, shared=True))
