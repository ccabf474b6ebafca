"""Groups that are over are told of while others are still written, and nothing depends on it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from grpo_lightning.engines.base import Completions, GenerationRequest, RowEnd
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.environments.scripted import Scripted
from grpo_lightning.environments.single_turn import SingleTurn
from grpo_lightning.policies.base import Policy
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rollout.evaluate import evaluate
from grpo_lightning.rollout.play import Group, PlaySettings, play
from grpo_lightning.samplers.top_k import TopK
from grpo_lightning.types import Episode, FinishReason, Ragged, Rollouts
from helpers.tiny_policy import text_prompt, tiny_policy

ADDRESS: dict[str, Any] = {"rollout": 0, "attempt": 0, "version": 3}
LETTERS = tuple("etaoinshrdlu01234")


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy(dtype="float32")


def settings_of(policy: Policy, **changed: Any) -> PlaySettings:
    settings = PlaySettings(
        policy, DecodeLoop(batch_rows=8), SingleTurn(), TopK(k=20), 4, 40, LETTERS, seed=0, stream="train"
    )
    return replace(settings, **changed)


def groups_of(policy: Policy, **columns: Any) -> list[Group]:
    prompts = [text_prompt(text, index, **columns) for index, text in enumerate(("7+8=", "ab", "z", "hello"))]
    return [Group(10 + index, prompt, policy.encode(prompt)) for index, prompt in enumerate(prompts)]


def same(one: Rollouts, two: Rollouts) -> bool:
    def equal(left: Any, right: Any) -> bool:
        if isinstance(left, Ragged):
            return torch.equal(left.values, right.values) and torch.equal(left.offsets, right.offsets)
        return torch.equal(left, right) if isinstance(left, torch.Tensor) else bool(left == right)

    return all(equal(getattr(one, item.name), getattr(two, item.name)) for item in fields(Rollouts))


class Ending(Environment):
    """Rewards a turn with its length, and would go on after an odd one."""

    name = "test_ending"
    max_observation_tokens = 9

    def __init__(self) -> None:
        self.asked: list[int] = []

    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        self.asked.append(len(episodes))
        lengths = [len(episode.turns[-1].token_ids) for episode in episodes]
        return [Observation("go" if length % 2 else None, float(length)) for length in lengths]


@pytest.mark.parametrize("environment", [SingleTurn, Ending, lambda: Scripted(replies=["no "])])
def test_rollouts_and_episodes_are_the_same(policy: CausalLM, environment: Any) -> None:
    told: list[list[Episode]] = []
    groups = groups_of(policy)
    plain, before = play(settings_of(policy, environment=environment()), groups, **ADDRESS)
    watched, episodes = play(
        settings_of(policy, environment=environment()), groups, **ADDRESS, finished=lambda rows: told.append(list(rows))
    )
    assert same(plain, watched)
    assert before == episodes
    assert sorted(rows[0].group for rows in told) == [10, 11, 12, 13]
    for rows in told:
        assert [(row.group, row.member) for row in rows] == [(rows[0].group, member) for member in range(4)]
        assert all(any(row is each for each in episodes) for row in rows)
        assert all(row.turns[-1].observation is None for row in rows)


def test_groups_end_inside_generation_and_are_whole(policy: CausalLM) -> None:
    inside: list[int] = []
    writing = [False]

    class Marking(DecodeLoop):
        def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
            writing[0] = True
            completions = super().generate(policy, request)
            writing[0] = False
            return completions

    def finished(rows: Sequence[Episode]) -> None:
        assert all(len(row.turns) == 1 and row.turns[0].reward == len(row.turns[0].token_ids) for row in rows)
        inside.append(rows[0].group if writing[0] else -1)

    environment = Ending()
    settings = settings_of(policy, engine=Marking(batch_rows=8), environment=environment)
    play(settings, groups_of(policy), **ADDRESS, finished=finished)
    assert sorted(inside) == [10, 11, 12, 13]
    assert environment.asked == [4] * 4


def test_an_engine_may_tell_of_some_rows_or_none(policy: CausalLM) -> None:
    class Telling(DecodeLoop):
        def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
            def some(end: RowEnd) -> None:
                if request.ended is not None and end.row % 4 != 3:
                    request.ended(end)

            return super().generate(policy, replace(request, ended=some))

    told: list[int] = []
    groups, environment = groups_of(policy), Ending()
    plain, before = play(settings_of(policy, environment=Ending()), groups, **ADDRESS)
    settings = settings_of(policy, engine=Telling(batch_rows=8), environment=environment)
    watched, episodes = play(settings, groups, **ADDRESS, finished=lambda rows: told.append(rows[0].group))
    assert same(plain, watched)
    assert (before, told) == (episodes, [10, 11, 12, 13])
    assert environment.asked == [16]


def test_nobody_who_listens_costs_nothing(policy: CausalLM) -> None:
    seen: list[Any] = []
    settings = settings_of(policy, recorder=lambda request, completions: seen.append(request.ended))
    play(settings, groups_of(policy), **ADDRESS)
    assert seen == [None]


def test_turns_that_follow_are_not_told_of_inside_generation(policy: CausalLM) -> None:
    seen: list[Any] = []
    settings = settings_of(
        policy,
        environment=Scripted(replies=["no "]),
        recorder=lambda request, completions: seen.append(request.ended),
    )
    play(settings, groups_of(policy), **ADDRESS, finished=lambda rows: None)
    assert set(seen) == {None}


class Waiting(DecodeLoop):
    """Goes on after the first group that is whole only when its reward has begun."""

    begun = threading.Event()
    waited: list[bool] = []  # noqa: RUF012 - one for the test

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        rows: list[int] = []

        def ended(end: RowEnd) -> None:
            assert request.ended is not None
            request.ended(end)
            rows.append(end.row)
            if sum(row // 4 == end.row // 4 for row in rows) == 4 and not self.waited:
                assert len(rows) < 16
                self.waited.append(self.begun.wait(20))

        return super().generate(policy, replace(request, ended=ended))


async def judge(completions: Sequence[str], stage: str, update: int) -> list[float]:
    assert (stage, update) == ("train", 3)
    Waiting.begun.set()
    return [float(len(text)) for text in completions]


def test_a_reward_begins_before_generation_has_ended(policy: CausalLM) -> None:
    """The engine would wait for ever for a reward that came after it."""
    entry = RewardEntry(reward=FunctionReward(function=judge), per_call="group", concurrency=2, name="x")
    with Firewall([entry]) as firewall:
        settings = settings_of(policy, engine=Waiting(batch_rows=4))
        early = evaluate(settings, firewall, groups_of(policy), range(4), version=3, threshold=1.0)
    assert Waiting.waited == [True]
    whole = RewardEntry(reward=FunctionReward(function=judge), name="x")
    with Firewall([whole]) as firewall:
        assert not firewall.overlaps
        late = evaluate(
            settings_of(policy, engine=DecodeLoop(batch_rows=4)),
            firewall,
            groups_of(policy),
            range(4),
            version=3,
            threshold=1.0,
        )
    assert [(row.episode, row.reward) for row in early] == [(row.episode, row.reward) for row in late]
    assert len({row.reward for row in early}) > 1


def test_what_the_environment_raises_goes_through(policy: CausalLM) -> None:
    class Broken(Environment):
        name = "test_broken"

        def step(self, episodes: Sequence[Episode]) -> list[Observation]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(settings_of(policy, environment=Broken()), groups_of(policy), **ADDRESS, finished=lambda rows: None)


def test_finish_of_a_row_that_would_go_on(policy: CausalLM) -> None:
    _, episodes = play(
        settings_of(policy, environment=Ending()), groups_of(policy), **ADDRESS, finished=lambda rows: None
    )
    for episode in episodes:
        odd = len(episode.turns[0].token_ids) % 2 == 1
        assert episode.finish is FinishReason.LENGTH or not odd
