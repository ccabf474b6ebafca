"""Which rows an update has, in which micro-batches, with which weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.aggregations.base import Aggregation
from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
from grpo_lightning.aggregations.token_mean import TokenMean
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, fill, run_mask
from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.table import GatheredTable
from helpers.hand_loss import HandRow, to_collected


def row(group: int, length: int, advantage: float = 1.0, *, prompt: int = 2, **changed: Any) -> HandRow:
    return HandRow(group, [3] * prompt, [4] * length, [True] * length, advantage, mu=[0.0] * length, **changed)


def settings_of(**changed: Any) -> BufferSettings:
    defaults: dict[str, Any] = {
        "aggregation": TokenMean(), "epochs": 1, "updates": 1, "budget": 1000, "micro_batches": 99,
        "whole_groups": False, "run_all": False, "mask_truncated": False, "seed": 0,
    }  # fmt: skip
    return BufferSettings(**defaults | changed)


def batches(buffer: Buffer, update: int = 0) -> list[list[int]]:
    return [rows.tolist() for rows in buffer.plans[update].micro_batches]


def test_weights_count_silent_rows_and_leave_masked_and_dropped_ones() -> None:
    rows = [row(0, 2), row(0, 3, 0.0), row(1, 4, truncated=True), row(2, 5), row(3, 0)]
    collected = to_collected(rows)
    collected.keep_R = torch.tensor([True, True, True, False, False])
    buffer = fill(collected, settings_of(mask_truncated=True), rollout=0)
    # Rows 0 and 1 are counted: five steps.
    assert buffer.plans[0].weights_R.tolist() == [0.2, 0.2, 0.0, 0.0, 0.0]
    assert batches(buffer) == [[0]]
    assert buffer.run_rows() == [0]
    assert run_mask(collected, buffer).tolist() == [True, False, False, False, False]
    unmasked = fill(collected, settings_of(aggregation=SequenceMeanTokenMean(), run_all=True), rollout=0)
    assert unmasked.plans[0].weights_R.tolist() == pytest.approx([1 / 6, 1 / 9, 1 / 12, 0.0, 0.0], rel=1e-15)
    assert unmasked.run_rows() == [0, 1, 2]


def test_a_micro_batch_holds_trainable_steps_of_its_rows_in_their_order() -> None:
    rows = [row(0, 3, 2.0), row(0, 2, -1.0), row(1, 4, 3.0)]
    rows[2].written = [True, False, True, False]
    collected = to_collected(rows)
    buffer = fill(collected, settings_of(budget=6), rollout=0)
    buffer.old_log_probs_S = torch.arange(9.0)
    buffer.reference_log_probs_S = torch.arange(9.0) + 100
    assert batches(buffer) == [[2], [0], [1]]
    micro = buffer.micro_batch(0, 0)
    assert micro is not None
    assert micro.advantages_S.tolist() == [3.0, 3.0]
    assert micro.weights_R.tolist() == pytest.approx([1 / 7])
    assert micro.old_log_probs_S is not None
    assert micro.reference_log_probs_S is not None
    assert micro.old_log_probs_S.tolist() == [5.0, 7.0]
    assert micro.reference_log_probs_S.tolist() == [105.0, 107.0]
    assert micro.rollouts.actions.tolist() == [[4] * 4]
    assert buffer.micro_batch(0, 3) is None
    assert buffer.micro_batch(0, 99) is None


def test_step_advantages_go_to_their_steps() -> None:
    collected = to_collected([row(0, 2), row(0, 3)])
    collected.advantages_S = torch.tensor([0.5, -0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    micro = fill(collected, settings_of(), rollout=0).micro_batch(0, 0)
    assert micro is not None
    by_row = dict(
        zip(micro.rollouts.member_R.tolist(), micro.advantages_S.split(micro.rollouts.lengths_R.tolist()), strict=True)
    )
    assert by_row[0].tolist() == [0.5, -0.5]
    assert by_row[1].tolist() == [1.0, 2.0, 3.0]


def test_nothing_to_train() -> None:
    for rows in ([row(0, 3, 0.0), row(0, 2, 0.0)], [row(0, 0), row(0, 0)]):
        buffer = fill(to_collected(rows), settings_of(), rollout=0)
        assert batches(buffer) == []
        assert buffer.micro_batch(0, 0) is None
        assert buffer.run_rows() == []
    dropped = to_collected([row(0, 3), row(1, 2)])
    dropped.keep_R = torch.tensor([False, False])
    assert fill(dropped, settings_of(updates=2, epochs=2), rollout=0).run_rows() == []


def test_updates_deal_kept_groups_equally_and_each_once_an_epoch() -> None:
    rows = [row(group, 2) for group in (3, 3, 5, 5, 6, 8, 8, 8, 9)]
    collected = to_collected(rows)
    collected.keep_R = torch.tensor([each.group != 6 for each in rows])
    buffer = fill(collected, settings_of(updates=2, epochs=3), rollout=0)
    assert len(buffer.plans) == 6
    orders = []
    for epoch in range(3):
        dealt = [{rows[i].group for batch in batches(buffer, 2 * epoch + part) for i in batch} for part in range(2)]
        assert dealt[0] | dealt[1] == {3, 5, 8, 9}
        assert not dealt[0] & dealt[1]
        assert [len(each) for each in dealt] == [2, 2]
        orders.append(frozenset(dealt[0]))
    assert len(set(orders)) > 1
    again = fill(collected, settings_of(updates=2, epochs=3), rollout=0)
    other = fill(collected, settings_of(updates=2, epochs=3), rollout=1)
    assert [batches(again, update) for update in range(6)] == [batches(buffer, update) for update in range(6)]
    assert [batches(other, update) for update in range(6)] != [batches(buffer, update) for update in range(6)]


def test_more_updates_than_groups_leave_some_empty() -> None:
    buffer = fill(to_collected([row(0, 2), row(0, 2)]), settings_of(updates=3), rollout=0)
    assert sorted(len(batches(buffer, update)) for update in range(3)) == [0, 0, 1]


def split_by_ranks(collected: Collected, bounds: Sequence[int]) -> list[Collected]:
    """The same rollout, its rows spread over ranks."""
    parts = []
    for start, end in pairwise(bounds):
        rows = torch.arange(start, end)
        rollouts = collected.rollouts.select(rows)
        gathered = GatheredTable(collected.gathered.table, slice(start, end))
        own_S = collected.advantages_R[rows][rollouts.row_S]
        parts.append(replace(collected, rollouts=rollouts, gathered=gathered, advantages_S=own_S))
    return parts


@pytest.mark.parametrize("aggregation", [TokenMean(), SequenceMeanTokenMean()])
def test_ranks_have_the_weights_of_the_whole_update(aggregation: Aggregation) -> None:
    rows = [row(group, 1 + (3 * i) % 5, float(i % 3)) for i, group in enumerate((0, 0, 1, 1, 1, 2, 2, 3, 4))]
    collected = to_collected(rows)
    made = settings_of(aggregation=aggregation, updates=2, budget=9)
    whole = fill(collected, made, rollout=4)
    ranks = [fill(part, made, rollout=4) for part in split_by_ranks(collected, [0, 5, 7, 9])]
    for update in range(2):
        weights = torch.cat([rank.plans[update].weights_R for rank in ranks])
        assert torch.equal(weights, whole.plans[update].weights_R)
        starts = (0, 5, 7)
        run = [
            start + i
            for rank, start in zip(ranks, starts, strict=True)
            for batch in batches(rank, update)
            for i in batch
        ]
        assert sorted(run) == sorted(i for batch in batches(whole, update) for i in batch)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from([0.0, 1.0, -2.0])), min_size=1, max_size=12
    ),
    st.integers(1, 40),
    st.booleans(),
    st.integers(1, 3),
)
def test_every_row_is_run_once_and_within_the_budget(
    shape: list[tuple[int, int, float]], budget: int, whole_groups: bool, updates: int
) -> None:
    rows = [row(*each) for each in shape]
    made = settings_of(budget=budget, whole_groups=whole_groups, updates=updates)
    buffer = fill(to_collected(rows), made, rollout=0)
    wanted = [i for i, each in enumerate(rows) if each.length and each.advantage]
    assert sorted(i for update in range(updates) for batch in batches(buffer, update) for i in batch) == wanted
    for update in range(updates):
        groups_seen: set[int] = set()
        for batch in batches(buffer, update):
            groups = {rows[i].group for i in batch}
            units = len(groups) if whole_groups else len(batch)
            assert units == 1 or sum(2 + len(rows[i].actions) for i in batch) <= budget
            assert not whole_groups or not groups & groups_seen
            groups_seen |= groups


def test_parts_are_the_micro_batches_of_all_updates() -> None:
    buffer = fill(to_collected([row(group, 2) for group in (0, 1, 2)]), settings_of(budget=4, updates=2), rollout=0)
    assert [part.tolist() for part in buffer.parts()] == batches(buffer, 0) + batches(buffer, 1)
