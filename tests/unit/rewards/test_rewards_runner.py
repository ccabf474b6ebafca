from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from grpo_lightning.errors import ConfigError, RewardError
from grpo_lightning.rewards.calls import applies_to
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.runner import score_entries
from grpo_lightning.types import Prompt

EPSILON = 2.0**-52


def entry(function: Any, **settings: Any) -> RewardEntry:
    return RewardEntry(reward=FunctionReward(function=function), **{"name": "x", **settings})


def returning(value: Any) -> Any:
    return lambda completions: value


def run(entries: list[RewardEntry], rows: Any, stage: str = "train") -> Any:
    return score_entries(entries, rows, update=0, stage=stage)


def test_scores_by_entry(episodes) -> None:
    rows = episodes(["5", "6", "5"], answer=["5", "5", None])
    scores = run([RewardEntry(reward=ExactMatch()), entry(returning([1, [2.0], None]))], rows)
    assert scores.raw == {"exact_match": [1.0, 0.0, None], "x": [1.0, 2.0, None]}
    assert scores.turn_scores == {"exact_match": [None] * 3, "x": [None, [2.0], None]}
    assert scores.applies == {"exact_match": [True] * 3, "x": [True] * 3}
    assert scores.failures == {"exact_match": 0, "x": 0}
    assert scores.epsilon == EPSILON


def test_a_judge_sees_whole_groups_at_once(episodes) -> None:
    seen = []

    def judge(completions: list[str], groups: list[int], members: list[int]) -> list[float]:
        seen.append((completions, groups, members))
        best = {group: max(len(c) for c, g in zip(completions, groups, strict=True) if g == group) for group in groups}
        return [float(len(c) == best[g]) for c, g in zip(completions, groups, strict=True)]

    scores = run([entry(judge)], episodes(["a", "bb", "cc", "c", "", "d"], group_size=3))
    assert seen == [(["a", "bb", "cc", "c", "", "d"], [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])]
    assert scores.raw["x"] == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]


def test_a_row_without_turns_is_legal(episodes) -> None:
    scores = run([RewardEntry(reward=ExactMatch())], episodes([None, ""], answer=["5", "5"]))
    assert scores.raw["exact_match"] == [0.0, 0.0]


def test_routing_asks_only_about_rows_it_applies_to(episodes) -> None:
    asked = []

    def judge(completions: list[str], update: int, stage: str) -> list[float]:
        asked.append((completions, update, stage))
        return [1.0] * len(completions)

    rows = episodes(["a", "b", "c", "d"], task=["sum", "sum", "sort", "sort"])
    never = entry(judge, name="never", when={"task": "other"})
    scores = score_entries([entry(judge, when={"task": "sort"}), never], rows, update=3, stage="held_out")
    assert asked == [(["c", "d"], 3, "held_out")]
    assert scores.raw == {"x": [None, None, 1.0, 1.0], "never": [None] * 4}
    assert scores.applies == {"x": [False, False, True, True], "never": [False] * 4}


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        (None, True),
        ({"level": 1}, True),
        ({"level": "1"}, True),
        ({"level": [2, 1]}, True),
        ({"level": 2}, False),
        ({"level": 1, "task": "sum"}, True),
        ({"level": 1, "task": "sort"}, False),
        ({"hint": None}, True),
        ({"hint": "None"}, False),
        ({"absent": None}, False),
    ],
)
def test_when(when: dict[str, Any] | None, applies: bool) -> None:
    prompt = Prompt("train", 0, "x", {"level": 1, "task": "sum", "hint": None})
    assert applies_to(entry(returning([]), when=when), prompt) is applies


def test_epsilon_is_the_coarsest_of_the_types_that_count(episodes) -> None:
    rows = episodes(["a", "b"])
    single = entry(returning(np.array([0.1, 0.2], dtype=np.float32)), name="single")
    double = entry(returning([0.1, np.float64(0.2)]), name="double")
    half = entry(returning(torch.tensor([0.1, 0.2], dtype=torch.bfloat16)), name="half")
    assert run([double], rows).epsilon == EPSILON
    assert run([double, single], rows).epsilon == 2.0**-23
    assert run([single, half, double], rows).epsilon == 2.0**-7
    logged = entry(returning(torch.tensor([0.1, 0.2], dtype=torch.bfloat16)), name="half", log_only=True)
    assert run([double, logged], rows).epsilon == EPSILON


def test_sync_rewards_run_without_gradient(episodes) -> None:
    def judge(completions: list[str]) -> list[Any]:
        weight = torch.ones(len(completions), requires_grad=True)
        return list(weight * 2)

    assert run([entry(judge)], episodes(["a", "b"])).raw["x"] == [2.0, 2.0]


def test_async_rewards_run_together_and_inside_a_running_loop(episodes) -> None:
    arrived: list[str] = []

    def meeting(name: str) -> RewardEntry:
        async def judge(completions: list[str]) -> list[float]:
            arrived.append(name)
            for _ in range(1000):
                if len(arrived) == 2:
                    return [1.0] * len(completions)
                await asyncio.sleep(0.005)
            raise TimeoutError("the other one never came")

        return entry(judge, name=name)

    async def notebook() -> Any:
        return run([meeting("left"), meeting("right")], episodes(["a"]))

    assert asyncio.run(notebook()).raw == {"left": [1.0], "right": [1.0]}


def test_a_sync_function_may_return_an_awaitable_and_an_object_be_async(episodes) -> None:
    async def later(completions: list[str]) -> list[float]:
        return [2.0] * len(completions)

    class Judge:
        async def __call__(self, completions: list[str]) -> list[float]:
            return [3.0] * len(completions)

    entries = [entry(lambda completions: later(completions), name="two"), entry(Judge(), name="three")]
    assert run(entries, episodes(["a"])).raw == {"two": [2.0], "three": [3.0]}


def raising(completions: list[str]) -> list[float]:
    raise ZeroDivisionError("by nothing")


async def raising_later(completions: list[str]) -> list[float]:
    raise ZeroDivisionError("by nothing")


FAILURES = [
    (raising, "raised ZeroDivisionError: by nothing", 2),
    (raising_later, "raised ZeroDivisionError: by nothing", 2),
    (returning([1.0]), "returned 1 scores for 2 rows", 2),
    (returning(None), "returned None, not a list", 2),
    (returning([1.0, float("nan")]), "gave nan, which is not finite", 1),
    (returning([1.0, float("inf")]), "gave inf, which is not finite", 1),
    (returning([1.0, "good"]), "gave 'good', which is no number", 1),
    (returning([1.0, [1.0, 2.0]]), "gave 2 scores for the 1 turns of a row", 1),
    (returning([1.0, torch.ones((), requires_grad=True)]), "carries a gradient", 1),
]


@pytest.mark.parametrize(("function", "cause", "rows"), FAILURES)
def test_a_failure_follows_the_declared_policy(function: Any, cause: str, rows: int, episodes, caplog) -> None:
    batch = episodes(["a", "b"])
    kept = [1.0] * (2 - rows)
    for policy, replaced in (("abstain", None), (0, 0.0), (-1.5, -1.5)):
        caplog.clear()
        scores = run([entry(function, on_failure=policy)], batch)
        assert scores.raw["x"] == [*kept, *[replaced] * rows]
        assert scores.failures == {"x": rows}
        assert len(caplog.records) == 1
        assert cause in caplog.text
    with pytest.raises(RewardError) as raised:
        run([entry(function)], batch)
    text = str(raised.value)
    assert text.startswith("reward 'x' ")
    assert cause in text
    assert f"(group 0, member {2 - rows}, prompt '2+3=')" in text


def test_the_error_names_the_row_and_the_start_of_its_prompt(episodes) -> None:
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "x" * 100}]
    rows = episodes(["a"] * 4, messages=chat)
    with pytest.raises(RewardError, match=r"group 1, member 0, prompt 'x{57}\.\.\.'") as raised:
        run([entry(returning([0, 0, float("nan"), 0]))], rows)
    assert raised.value.__cause__ is not None


def test_the_cause_of_an_exception_is_kept(episodes) -> None:
    with pytest.raises(RewardError) as raised:
        run([entry(raising)], episodes(["a"]))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("later", [False, True])
def test_errors_of_configuration_are_never_contained(later: bool, episodes) -> None:
    def judge(completions: list[str]) -> list[float]:
        raise ConfigError("model", "x", "is unknown", "mend it")

    async def judge_later(completions: list[str]) -> list[float]:
        return judge(completions)

    with pytest.raises(ConfigError, match="model: 'x' is unknown"):
        run([entry(judge_later if later else judge, on_failure="abstain")], episodes(["a"]))


def test_one_failing_reward_does_not_touch_the_others(episodes) -> None:
    good = entry(returning([1.0, 2.0]), name="good")
    scores = run([entry(raising, on_failure="abstain"), good], episodes(["a", "b"]))
    assert scores.raw == {"x": [None, None], "good": [1.0, 2.0]}
    assert scores.failures == {"x": 2, "good": 0}


def test_no_rows() -> None:
    scores = run([entry(raising)], [])
    assert (scores.raw, scores.failures) == ({"x": []}, {"x": 0})
