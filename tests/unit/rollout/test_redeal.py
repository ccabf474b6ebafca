"""A rollout in progress on another number of ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, UpdatePlan
from grpo_lightning.rollout.redeal import merged, redeal
from helpers.tiny_rollouts import tiny_rollouts

LENGTHS = [3, 1, 2, 4, 1, 2, 5, 1, 2, 3, 1, 1]
"""Six groups of two rows."""


def settings_of(**changed: Any) -> BufferSettings:
    from grpo_lightning.aggregations.token_mean import TokenMean

    defaults: dict[str, Any] = {
        "aggregation": TokenMean(), "epochs": 1, "updates": 2, "budget": 7, "micro_batches": 99,
        "whole_groups": False, "run_all": False, "mask_truncated": False, "seed": 0,
    }  # fmt: skip
    return BufferSettings(**defaults | changed)


def whole(**changed: Any) -> Buffer:
    """One rank's buffer: rows 1, 4 and 7 are silent; even groups are in the first update, odd ones in the second."""
    torch.manual_seed(0)  # of the prompts' further inputs
    rollouts, steps = tiny_rollouts(LENGTHS), sum(LENGTHS)
    plans = []
    for update in range(2):
        mine = rollouts.group_R % 2 == update
        run = [row for row in range(len(LENGTHS)) if mine[row] and row not in (1, 4, 7)]
        plans.append(
            UpdatePlan([torch.tensor(run[:2]), torch.tensor(run[2:])], (torch.arange(12.0) + 1).double() * mine)
        )
    values: dict[str, Any] = {
        "old_log_probs_S": torch.arange(steps).double() + 0.5,
        "reference_log_probs_S": torch.arange(steps).double() + 0.25,
        "rewards_R": torch.arange(12.0).double(),
    } | changed
    return Buffer(rollouts, -torch.arange(steps).double(), plans, version=3, **values)


def on_ranks(states: list[dict[str, Any]], ranks: int, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> list[Buffer]:
    monkeypatch.setattr(world, "world_size", lambda: ranks)
    buffers = []
    for rank in range(ranks):
        monkeypatch.setattr(world, "rank", lambda rank=rank: rank)
        buffers.append(redeal(states, settings_of(**changed)))
    return buffers


def content(buffer: Buffer) -> dict[tuple[int, int], dict[str, Any]]:
    """What each row has, by group and member."""
    rollouts, found = buffer.rollouts, {}
    for row in range(len(rollouts)):
        steps = rollouts.actions.positions(torch.tensor([row]))
        found[int(rollouts.group_R[row]), int(rollouts.member_R[row])] = {
            "prompt": rollouts.prompts.tolist()[int(rollouts.prompt_R[row])],
            "actions": rollouts.actions.tolist()[row],
            "pixels": rollouts.extras["pixels"].select(rollouts.prompt_R[row : row + 1]).values.tolist(),
            "support": rollouts.support.select(steps).tolist() if rollouts.support else None,
            "advantages": buffer.advantages_S[steps].tolist(),
            "old": None if buffer.old_log_probs_S is None else buffer.old_log_probs_S[steps].tolist(),
            "reference": None if buffer.reference_log_probs_S is None else buffer.reference_log_probs_S[steps].tolist(),
            "reward": None if buffer.rewards_R is None else float(buffer.rewards_R[row]),
            "weights": [float(plan.weights_R[row]) for plan in buffer.plans],
            "run": [any(row in rows.tolist() for rows in plan.micro_batches) for plan in buffer.plans],
        }
    return found


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 4), (3, 2), (2, 3), (4, 1), (5, 6)])
def test_rows_keep_what_they_have_and_groups_go_where_they_would_have_been_sampled(
    before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = content(whole())
    states = [share(whole(), before, rank) for rank in range(before)]
    dealt = on_ranks(states, after, monkeypatch)
    found = [content(buffer) for buffer in dealt]
    assert {key: each for part in found for key, each in part.items()} == wanted
    for rank, part in enumerate(found):
        assert {group for group, _ in part} == set(range(6 * rank // after, 6 * (rank + 1) // after))
    assert {buffer.version for buffer in dealt} == {3}


def share(buffer: Buffer, ranks: int, rank: int) -> dict[str, Any]:
    """The state of one of several ranks, its rows picked by hand."""
    groups = range(6 * rank // ranks, 6 * (rank + 1) // ranks)
    first, last = 2 * groups.start, 2 * groups.stop
    rows, start, stop = torch.arange(first, last), sum(LENGTHS[:first]), sum(LENGTHS[:last])
    plans = []
    for plan in buffer.plans:
        run = sorted(int(row) - first for part in plan.micro_batches for row in part if first <= row < last)
        plans.append(UpdatePlan([torch.tensor([row]) for row in run], plan.weights_R[first:last]))
    assert buffer.old_log_probs_S is not None
    assert buffer.reference_log_probs_S is not None
    assert buffer.rewards_R is not None
    return Buffer(
        buffer.rollouts.select(rows).without_unused_prompts(), buffer.advantages_S[start:stop], plans,
        buffer.old_log_probs_S[start:stop], buffer.reference_log_probs_S[start:stop], buffer.rewards_R[first:last], 3,
    ).state_dict()  # fmt: skip


def test_micro_batches_are_made_for_the_ranks_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = on_ranks([share(whole(), 3, rank) for rank in range(3)], 1, monkeypatch, budget=10_000)
    assert [len(plan.micro_batches) for plan in one.plans] == [1, 1]
    (few,) = on_ranks([share(whole(), 3, rank) for rank in range(3)], 1, monkeypatch, budget=1, micro_batches=2)
    assert [len(plan.micro_batches) for plan in few.plans] == [2, 2]


def test_what_a_rollout_does_not_have_it_does_not_get(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = whole(old_log_probs_S=None, reference_log_probs_S=None, rewards_R=None)
    for buffer in on_ranks([bare.state_dict()], 2, monkeypatch):
        assert buffer.old_log_probs_S is None
        assert buffer.reference_log_probs_S is None
        assert buffer.rewards_R is None


def test_micro_batches_of_ranks_follow_each_other() -> None:
    both = merged([Buffer.from_state_dict(share(whole(), 2, rank)) for rank in range(2)])
    assert [rows.tolist() for rows in both.plans[0].micro_batches] == [[0], [5], [8], [9]]
    assert [rows.tolist() for rows in both.plans[1].micro_batches] == [[2], [3], [6], [10], [11]]
