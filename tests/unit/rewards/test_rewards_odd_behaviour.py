"""What rewards do to the run around them, in threads, loops and processes, is contained and told by its right name."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grpo_lightning.errors import RewardError
from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.composer import compose
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.fingerprint import fingerprint, reward_fingerprint
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.runner import score_entries
from grpo_lightning.rewards.scores import Scores
from grpo_lightning.types import Episode, FinishReason, Prompt, Turn
from helpers.launched_ranks import TESTS


def episode(member: int = 0) -> Episode:
    prompt = Prompt("train", 0, [{"role": "user", "content": "q"}], {"answer": ["right"]})
    return Episode(prompt, 0, member, [Turn([1, 2], "ab", FinishReason.STOP)], [0.0, 0.0])


def entry(function: Callable[..., Any], **fields: Any) -> RewardEntry:
    settings = {"name": "x", "on_failure": 0.0, "timeout": 1.0} | fields
    return RewardEntry(reward=FunctionReward(function=function), **settings)


def counted(function: Callable[..., Any], **fields: Any) -> tuple[list[float | None], set[str]]:
    """The scores of two rows, and the kinds of failures."""
    scores = score_entries([entry(function, **fields)], [episode(0), episode(1)], update=0, stage="train")
    kinds = {key for key, count in scores.counts["x"].items() if key.startswith("failures/") and count}
    return scores.raw["x"], kinds


def vandal(completions: list[str], prompts: list[Any], turns: list[Any], answer: list[Any]) -> list[float]:
    for prompt, written, right in zip(prompts, turns, answer, strict=True):
        prompt[0]["content"] = written[0].text = "vandalised"
        written[0].token_ids.append(9)
        right.append("vandalised")
    completions[0] = "vandalised"
    return [0.0] * len(prompts)


@pytest.mark.parametrize("timeout", [1.0, None])
def test_what_a_reward_changes_no_other_sees(timeout: float | None) -> None:
    seen: list[Any] = []

    def witness(completions: list[str], prompts: Any, turns: Any, answer: Any) -> list[float]:
        seen.extend([completions[0], prompts[0][0]["content"], turns[0][0].text, turns[0][0].token_ids, answer[0]])
        return [0.0] * len(prompts)

    row = episode()
    entries = [entry(vandal, timeout=timeout), entry(witness, name="y", timeout=timeout)]
    score_entries(entries, [row], update=0, stage="train")
    assert seen == ["ab", "q", "ab", [1, 2], ["right"]]
    assert row == episode()


class UntoldError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def raises_untold(completions: Any) -> Any:
    raise UntoldError


async def raises_untold_later(completions: Any) -> Any:
    raise UntoldError


async def cancels_itself(completions: Any) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def leaves_in_a_task(completions: Any) -> Any:
    async def leave() -> None:
        raise SystemExit(3)

    await asyncio.create_task(leave())


def leaves_as_a_generator(completions: Any) -> Any:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        (raises_untold, {}),
        (raises_untold, {"timeout": None}),
        (raises_untold_later, {}),
        (cancels_itself, {}),
        (leaves_in_a_task, {}),
        (leaves_as_a_generator, {}),
        (leaves_as_a_generator, {"timeout": None}),
    ],
)
def test_odd_exceptions_are_raised_ones(function: Callable[..., Any], fields: dict[str, Any]) -> None:
    assert counted(function, **fields) == ([0.0, 0.0], {"failures/raised"})


async def stops_its_loop(completions: list[str]) -> list[float]:
    asyncio.get_running_loop().stop()
    return [1.0] * len(completions)


async def answers_late(completions: list[str]) -> list[float]:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return [1.0] * len(completions)
    return []


def test_a_loop_that_is_stopped_goes_on() -> None:
    assert counted(stops_its_loop, per_call="row") == ([1.0, 1.0], set())


def test_a_score_after_the_time_is_none() -> None:
    assert counted(answers_late, timeout=0.2) == ([0.0, 0.0], {"failures/timeout"})


def turns_gradients_on(completions: list[str]) -> list[float]:
    torch.set_grad_enabled(True)
    return [0.0] * len(completions)


def computes(completions: list[str]) -> Any:
    return torch.ones(len(completions), requires_grad=True) * 1.0


def test_one_reward_does_not_give_another_gradients() -> None:
    scores = score_entries([entry(turns_gradients_on), entry(computes, name="y")], [episode()], update=0, stage="train")
    assert scores.raw["y"] == [1.0]


def too_long_to_show(completions: list[str]) -> list[Any]:
    return [10**5000, 1.0]


class Liar(list[float]):
    def __len__(self) -> int:
        return 1


def lies_about_turns(completions: list[str]) -> list[Any]:
    return [Liar([1.0, 2.0, 3.0]), 1.0]


@pytest.mark.parametrize(
    ("function", "kind"), [(too_long_to_show, "failures/not_finite"), (lies_about_turns, "failures/wrong_length")]
)
def test_one_row_fails_by_itself(function: Callable[..., Any], kind: str) -> None:
    assert counted(function) == ([0.0, 1.0], {kind})


def test_a_sum_that_overflows_is_an_error_not_an_abstention() -> None:
    both = {"a": [1e308], "b": [1e308]}
    scores = Scores(both, {"a": [None], "b": [None]}, {"a": [True], "b": [True]}, {"a": 0, "b": 0})
    entries = [entry(vandal, name="a", weight=10.0), entry(vandal, name="b", weight=-10.0)]
    with pytest.raises(RewardError, match="composed reward of row 0 is not finite"):
        compose(entries, scores)


class CannotBeSetUp(Reward):
    """Fails when it is set up."""

    name = "cannot_be_set_up"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def setup(self) -> None:
        raise self.error

    def score(self, *, completions: list[str]) -> list[float]:
        return [0.0] * len(completions)


@pytest.mark.parametrize("error", [SystemExit(0), KeyError("lost")])
def test_a_setup_that_fails_names_the_reward(error: BaseException) -> None:
    firewall = Firewall([RewardEntry(reward=CannotBeSetUp(error), name="x")])
    with pytest.raises(RewardError, match=f"reward 'x': setup raised {type(error).__name__}"):
        firewall.start()
    firewall.close()


def made(value: float) -> Callable[..., Any]:
    def function(completions: list[str]) -> list[float]:
        return [value] * len(completions)

    return function


def test_a_cache_tells_closures_defaults_and_contents_apart() -> None:
    def first(completions: Any, k: int = 1) -> Any: ...

    def second(completions: Any, k: int = 2) -> Any: ...

    second.__qualname__ = first.__qualname__
    rewards = [FunctionReward(function=each) for each in (made(1.0), made(2.0), first, second)]
    prints = [reward_fingerprint(reward) for reward in rewards]
    assert len(set(prints)) == 4
    assert reward_fingerprint(FunctionReward(function=made(1.0))) == prints[0]
    for one, other in [
        (np.array(["a", 1], dtype=object), np.array(["b", 1], dtype=object)),
        (torch.tensor(2**53), torch.tensor(2**53 + 1)),
        (torch.tensor(1j), torch.tensor(2j)),
        (torch.zeros(2, 3), torch.zeros(3, 2)),
    ]:
        assert fingerprint(one) != fingerprint(other)
    assert fingerprint(np.array(["a", 1], dtype=object)) == fingerprint(np.array(["a", 1], dtype=object))


@dataclass
class Equal(Reward):
    """Defines equality, and so no hash."""

    k: int = 1
    name = "equal"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(self.k)] * len(completions)


def test_rewards_with_equality_can_be_cached() -> None:
    one, two = Equal(1), Equal(2)
    assert reward_fingerprint(one) != reward_fingerprint(two)


PROGRAM = """
import asyncio, sys, time
from concurrent.futures import ThreadPoolExecutor
from grpo_lightning.cli.main import leave
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.runner import score_entries
from grpo_lightning.types import Episode, FinishReason, Prompt, Turn

async def later(completions):
    await asyncio.to_thread(time.sleep, 60)

def pooled(completions):
    return ThreadPoolExecutor(1).submit(time.sleep, 60).result()

row = Episode(Prompt("train", 0, "x", {}), 0, 0, [Turn([1], "a", FinishReason.STOP)])
reward = FunctionReward(function=globals()[sys.argv[1]])
scores = score_entries([RewardEntry(reward=reward, name="x", timeout=0.5, on_failure=0.0)], [row], update=0, stage="train")
print(scores.raw["x"])
leave(7)
"""


@pytest.mark.parametrize("name", ["later", "pooled"])
def test_a_hang_in_a_pool_does_not_keep_the_process(tmp_path: Path, name: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), name]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, env=environment, check=False)
    assert (done.returncode, done.stdout) == (7, "[0.0]\n"), done.stderr
