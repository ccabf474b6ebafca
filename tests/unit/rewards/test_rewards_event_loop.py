"""Async rewards: their loop, and what blocks it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from grpo_lightning.errors import RewardError
from grpo_lightning.rewards import event_loop
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward


def entry(function: Any, **fields: Any) -> RewardEntry:
    return RewardEntry(reward=FunctionReward(function=function), **{"name": "x", **fields})


def scored(entries: list[RewardEntry], rows: Any) -> Any:
    with Firewall(entries) as guarded:
        return guarded.scores(rows, update=0, stage="train")


def test_the_loop_stays_so_that_a_client_can_be_kept(episodes: Any) -> None:
    loops: list[Any] = []

    async def judge(completions: Sequence[str]) -> list[float]:
        loops.append(asyncio.get_running_loop())
        assert not torch.is_grad_enabled()
        return [1.0] * len(completions)

    with Firewall([entry(judge)]) as guarded:
        for _ in range(2):
            guarded.scores(episodes(["a"]), update=0, stage="train")
    assert loops[0] is loops[1]


def test_a_blocked_loop_takes_only_its_own_time(episodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "GRACE", 0.1)
    loops: list[Any] = []

    async def judge(completions: Sequence[str]) -> list[float]:
        loops.append(asyncio.get_running_loop())
        if completions == ["a"]:
            time.sleep(2)  # a call that blocks
        return [1.0] * len(completions)

    scores = scored([entry(judge, timeout=0.2, per_call="row", on_failure="abstain")], episodes(["a", "b"]))
    assert scores.raw["x"] == [None, 1.0]
    assert loops[0] is not loops[1]
    assert scores.counts["x"]["abandoned"] == 1.0


def test_a_timeout_of_the_reward_itself_is_what_it_raised(episodes: Any) -> None:
    async def judge(completions: Sequence[str]) -> list[float]:
        raise TimeoutError("the server")

    async def cancelled(completions: Sequence[str]) -> list[float]:
        raise asyncio.CancelledError

    entries = [entry(judge, on_failure="abstain"), entry(cancelled, name="y", on_failure="abstain")]
    scores = scored(entries, episodes(["a"]))
    assert [scores.counts[name]["failures/raised"] for name in "xy"] == [1.0, 1.0]


def test_what_is_awaited_when_a_run_ends_is_cancelled(episodes: Any) -> None:
    ended: list[str] = []

    async def judge(completions: Sequence[str]) -> list[float]:
        if completions == ["a"]:
            await asyncio.sleep(0.1)
            raise OSError("broken")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return [1.0]

    with pytest.raises(RewardError, match="broken"):
        scored([entry(judge, per_call="row", concurrency=2)], episodes(["a", "b"]))
    until = time.monotonic() + 10
    while not ended and time.monotonic() < until:
        time.sleep(0.01)
    assert ended == ["cancelled"]
