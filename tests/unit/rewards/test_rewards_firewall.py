"""Concurrency, time, retries, phases and overlap. What failures cost a run is in ``tests/integration/test_reward_firewall``."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from grpo_lightning.errors import ConfigError, RewardError
from grpo_lightning.rewards import abandoned, firewall
from grpo_lightning.rewards.composer import compose
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward


def entry(function: Any, **fields: Any) -> RewardEntry:
    return RewardEntry(reward=FunctionReward(function=function), **{"name": "x", **fields})


def scored(entries: list[RewardEntry], rows: Any) -> Any:
    with Firewall(entries) as guarded:
        return guarded.scores(rows, update=0, stage="train")


def slow_echo(completions: Sequence[str]) -> list[float]:
    time.sleep(random.random() / 50)
    return [float(text) for text in completions]


async def async_echo(completions: Sequence[str]) -> list[float]:
    await asyncio.sleep(random.random() / 50)
    return [float(text) for text in completions]


@pytest.mark.parametrize("function", [slow_echo, async_echo])
@pytest.mark.parametrize("per_call", ["rollout", "group", "row"])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_scores_do_not_depend_on_how_calls_are_made(
    function: Any, per_call: Any, concurrency: int, episodes: Any
) -> None:
    if concurrency > 1 and per_call == "rollout":
        return
    rows = episodes([str(index) for index in range(12)], group_size=3)
    scores = scored([entry(function, per_call=per_call, concurrency=concurrency)], rows)
    assert scores.raw["x"] == [float(index) for index in range(12)]


def gathering(calls: int) -> Callable[[Sequence[str]], list[float]]:
    """A reward whose calls end only when so many run at once."""
    gate = threading.Barrier(calls, timeout=20)

    def judge(completions: Sequence[str]) -> list[float]:
        gate.wait()
        return [1.0] * len(completions)

    return judge


def test_as_many_calls_run_at_once_as_is_said(episodes: Any) -> None:
    rows = episodes(["a"] * 6, group_size=2)
    assert scored([entry(gathering(3), concurrency=3)], rows).raw["x"] == [1.0] * 6
    most, now, lock = [0], [0], threading.Lock()

    def judge(completions: Sequence[str]) -> list[float]:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        return [1.0] * len(completions)

    scored([entry(judge, concurrency=2, per_call="row")], episodes(["a"] * 8))
    assert most == [2]


def test_sync_rewards_without_concurrency_never_run_beside_each_other(episodes: Any) -> None:
    running: list[str] = []

    def judge(completions: Sequence[str]) -> list[float]:
        running.append("in")
        time.sleep(0.05)
        running.append("out")
        return [1.0] * len(completions)

    scored([entry(judge, name=name) for name in "abc"], episodes(["a"]))
    assert running == ["in", "out"] * 3


def test_without_a_limit_a_sync_reward_runs_in_the_calling_thread(episodes: Any) -> None:
    seen: list[tuple[threading.Thread, bool]] = []

    def judge(completions: Sequence[str]) -> list[float]:
        seen.append((threading.current_thread(), torch.is_grad_enabled()))
        return [1.0] * len(completions)

    scored([entry(judge, timeout=None), entry(judge, name="limited")], episodes(["a"]))
    assert sorted(thread is threading.current_thread() for thread, _ in seen) == [False, True]
    assert [grad for _, grad in seen] == [False, False]
    assert torch.is_grad_enabled()


def test_a_sync_function_without_a_limit_may_return_an_awaitable(episodes: Any) -> None:
    assert scored([entry(lambda completions: async_echo(completions), timeout=None)], episodes(["3"])).raw["x"] == [3.0]


def failing(times: int) -> tuple[list[float], Callable[[Sequence[str]], list[float]]]:
    """A reward that fails so many times, and when it was called."""
    called: list[float] = []

    def judge(completions: Sequence[str]) -> list[float]:
        called.append(time.monotonic())
        if len(called) <= times:
            raise OSError("try again")
        return [1.0] * len(completions)

    return called, judge


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_retries_back_off_and_are_counted(timeout: float | None, episodes: Any) -> None:
    called, judge = failing(2)
    scores = scored([entry(judge, retries=3, backoff=0.1, timeout=timeout)], episodes(["a", "b"]))
    assert scores.raw["x"] == [1.0, 1.0]
    assert (scores.counts["x"]["retries"], scores.counts["x"]["failures"]) == (2.0, 0.0)
    assert called[1] - called[0] >= 0.1
    assert called[2] - called[1] >= 0.2


def test_retries_end(episodes: Any) -> None:
    called, judge = failing(9)
    scores = scored([entry(judge, retries=2, backoff=0.0, on_failure=0)], episodes(["a"]))
    assert (len(called), scores.raw["x"]) == (3, [0.0])
    assert scores.counts["x"]["failures/raised"] == 1.0


def test_a_call_that_waits_for_its_retry_keeps_nobody(episodes: Any) -> None:
    order: list[str] = []

    def judge(completions: Sequence[str]) -> list[float]:
        order.append(completions[0])
        if order == ["a"]:
            raise OSError
        return [1.0]

    scored([entry(judge, retries=1, backoff=0.3, per_call="row")], episodes(["a", "b", "c"]))
    assert order == ["a", "b", "c", "a"]


def test_a_score_that_is_none_is_tried_again_too(episodes: Any) -> None:
    answers = [[float("nan"), 1.0], [0.5, 1.0]]
    scores = scored([entry(lambda completions: answers.pop(0), retries=1, backoff=0.0)], episodes(["a", "b"]))
    assert scores.raw["x"] == [0.5, 1.0]


def test_errors_of_configuration_are_not_tried_again(episodes: Any) -> None:
    called: list[int] = []

    def judge(completions: Sequence[str]) -> list[float]:
        called.append(1)
        raise ConfigError("model", "x", "is unknown", "mend it")

    with pytest.raises(ConfigError, match="model: 'x' is unknown"):
        scored([entry(judge, retries=5, on_failure="abstain")], episodes(["a"]))
    assert called == [1]


def test_what_comes_too_late_is_dropped(episodes: Any) -> None:
    gate = threading.Event()

    def judge(completions: Sequence[str]) -> list[float]:
        if completions == ["a"]:
            gate.wait(20)
        return [7.0]

    hanging = entry(judge, timeout=0.2, per_call="row", on_failure="abstain")
    with Firewall([hanging]) as guarded:
        first = guarded.scores(episodes(["a", "b"]), update=0, stage="train")
        gate.set()
        time.sleep(0.1)
        second = guarded.scores(episodes(["b", "c"]), update=0, stage="train")
    assert (first.raw["x"], second.raw["x"]) == ([None, 7.0], [7.0, 7.0])
    assert (first.counts["x"]["abandoned"], second.counts["x"]["abandoned"]) == (1.0, 0.0)
    assert first.counts["x"]["failures/timeout"] == 1.0


def test_too_many_hanging_threads_end_the_run(episodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandoned, "MOST", 2)
    gate = threading.Event()

    def judge(completions: Sequence[str]) -> list[float]:
        gate.wait(20)
        return [1.0]

    hanging = entry(judge, timeout=0.05, per_call="row", on_failure="abstain")
    text = "reward 'x' hangs: 3 threads of its calls were left behind and still run, more than 2; set its isolation to process"
    with pytest.raises(RewardError, match=text):
        scored([hanging], episodes(["a"] * 5))
    with Firewall([hanging]) as guarded:
        guarded.scores(episodes(["a"] * 2), update=0, stage="train")
        gate.set()  # those that come to an end do not count any longer
        time.sleep(0.1)
        gate.clear()
        guarded.scores(episodes(["a"] * 2), update=0, stage="train")
    gate.set()


def test_groups_drop_as_a_whole(episodes: Any) -> None:
    def judge(completions: Sequence[str]) -> list[float]:
        return [float("nan") if text == "bad" else 1.0 for text in completions]

    entries = [entry(judge, on_failure="drop_group"), entry(lambda completions: [2.0] * len(completions), name="other")]
    scores = scored(entries, episodes(["a", "b", "bad", "c", "d", "e"]))
    assert scores.dropped == [False, False, True, True, False, False]
    assert scores.counts["x"]["groups_dropped"] == 1.0
    assert scores.raw["x"] == [1.0, 1.0, None, 1.0, 1.0, 1.0]
    assert compose(entries, scores).rewards_R.isnan().tolist() == scores.dropped
    assert scored(entries, episodes(["a", "b"])).dropped == []


def test_some_rewards_see_what_the_others_gave(episodes: Any) -> None:
    seen: list[Any] = []

    def tie_break(completions: Sequence[str], base_rewards: Sequence[float | None]) -> list[float]:
        seen.append(list(base_rewards))
        return [0.1] * len(completions)

    def judge(completions: Sequence[str]) -> list[float | None]:
        return [None if text == "none" else len(text) for text in completions]

    entries = [entry(tie_break, name="tie"), entry(judge, weight=2.0), entry(judge, name="half", weight=0.5)]
    scores = scored(entries, episodes(["a", "none", "bbb"]))
    assert seen == [[2.5, None, 7.5]]
    assert scores.raw["tie"] == [0.1] * 3
    assert compose(entries, scores).rewards_R[[0, 2]].tolist() == pytest.approx([2.6, 7.6])
    seen.clear()
    scored([entry(tie_break, name="tie", per_call="row"), entry(judge)], episodes(["a", "none", "bbb"]))
    assert seen == [[1.0], [None], [3.0]]


def test_a_reward_that_takes_all_is_no_second_phase(episodes: Any) -> None:
    given: list[Any] = []

    def judge(**everything: Any) -> list[float]:
        given.append(everything)
        return [1.0] * len(everything["completions"])

    scored([entry(judge)], episodes(["a"]))
    assert "base_rewards" not in given[0]
    assert {"update", "groups", "turns"} <= given[0].keys()


def test_what_was_submitted_is_not_asked_again(episodes: Any) -> None:
    seen: list[Any] = []

    async def judge(completions: Sequence[str], groups: Sequence[int]) -> list[float]:
        seen.append((list(completions), list(groups)))
        return [float(len(text)) for text in completions]

    rows = episodes(["a", "bb", "ccc", "d"])
    whole = entry(lambda completions: [1.0] * len(completions), name="whole")
    with Firewall([entry(judge, per_call="group"), whole]) as guarded:
        assert guarded.overlaps
        guarded.submit(rows[2:], update=0, stage="train")
        until = time.monotonic() + 10
        while not seen and time.monotonic() < until:
            time.sleep(0.01)
        assert seen == [(["ccc", "d"], [1, 1])]
        scores = guarded.scores(rows, update=0, stage="train")
    assert seen[1:] == [(["a", "bb"], [0, 0])]
    assert scores.raw == {"x": [1.0, 2.0, 3.0, 1.0], "whole": [1.0] * 4}


@pytest.mark.parametrize(
    ("fields", "cores", "overlaps"),
    [
        ({}, 64, False),
        ({"per_call": "group"}, 64, True),
        ({"per_call": "group"}, torch.get_num_threads(), False),
        ({"per_call": "group", "isolation": "process"}, 1, True),
        ({"per_call": "group", "timeout": None}, 64, False),
        ({"isolation": "process"}, 64, False),
    ],
)
def test_who_may_begin_early(
    fields: dict[str, Any], cores: int, overlaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firewall, "_cores", lambda: cores)
    assert Firewall([entry(slow_echo, **fields)]).overlaps is overlaps


def test_a_run_that_ends_leaves_nothing_waiting(episodes: Any) -> None:
    gate = threading.Event()

    def judge(completions: Sequence[str]) -> list[float]:
        if completions == ["a"]:
            raise OSError("broken")
        gate.wait(30)
        return [1.0]

    before = time.monotonic()
    with pytest.raises(RewardError, match=r"reward 'x' raised OSError: broken at test_rewards_firewall\.py:"):
        scored([entry(judge, per_call="row", concurrency=4)], episodes(["a"] + ["b"] * 10))
    assert time.monotonic() - before < 10
    gate.set()
