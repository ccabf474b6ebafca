"""Which work item does what."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.packing import pack
from grpo_lightning.rollout.schedule import Schedule, WorkItem, micro_batches_needed


def test_items_in_order() -> None:
    schedule = Schedule(warmup_updates=1, updates_per_rollout=2, micro_batches=2, max_updates=4)
    assert len(schedule) == 8
    assert [schedule.item(index) for index in range(8)] == [
        WorkItem("warmup", 0, 0, 0, False), WorkItem("warmup", 0, 0, 1, True),
        WorkItem("grpo", 0, 0, 0, False), WorkItem("grpo", 0, 0, 1, True),
        WorkItem("grpo", 0, 1, 0, False), WorkItem("grpo", 0, 1, 1, True),
        WorkItem("grpo", 1, 0, 0, False), WorkItem("grpo", 1, 0, 1, True),
    ]  # fmt: skip
    assert [index for index in range(2, 8) if schedule.item(index).opens_rollout] == [2, 6]
    assert [schedule.closes_rollout(update) for update in range(4)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("groups", "size", "updates", "ranks", "row", "budget", "wanted"),
    [
        (8, 4, 1, 1, 10, 320, 1),
        (8, 4, 1, 1, 10, 319, 2),  # 31 rows fit, 32 are wanted
        (8, 4, 2, 1, 10, 40, 4),
        (8, 4, 2, 4, 10, 40, 2),  # a rank has two groups, and both may be in one update
        (7, 4, 1, 2, 10, 40, 4),
        (8, 4, 1, 1, 10, 3, 32),  # a row that is over the budget is alone
    ],
)
def test_micro_batches_needed(
    groups: int, size: int, updates: int, ranks: int, row: int, budget: int, wanted: int
) -> None:
    assert micro_batches_needed(groups, size, updates, ranks, row, budget) == wanted


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 30), st.integers(1, 60))
def test_no_update_needs_more(data: st.DataObject, groups: int, size: int, row: int, budget: int) -> None:
    costs = data.draw(st.lists(st.integers(1, row), min_size=groups * size, max_size=groups * size))
    assert len(pack(costs, budget)) <= micro_batches_needed(groups, size, 1, 1, row, budget)
