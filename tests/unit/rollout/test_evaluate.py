"""Completions of held-out prompts, scored."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.environments.single_turn import SingleTurn
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rollout.evaluate import EvaluatedRow, evaluate
from grpo_lightning.rollout.play import Group, PlaySettings
from grpo_lightning.samplers.temperature import Temperature
from helpers.tiny_policy import text_prompt, tiny_policy


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy(dtype="float32")


def share(completions: list[str], answer: list[str]) -> list[float | None]:
    """How often the answer's letter is written; abstains where there is no answer."""
    return [text.count(letter) / 4 if letter else None for text, letter in zip(completions, answer, strict=True)]


def length(lengths: list[int], update: int, stage: str) -> list[float]:
    assert (update, stage) == (17, "held_out")
    return [float(each) for each in lengths]


def run(policy: CausalLM, **changed: Any) -> list[EvaluatedRow]:
    prompts = [text_prompt("7+8=", 31, answer="a"), text_prompt("b", 35, answer=""), text_prompt("c", 36, answer="c")]
    groups = [Group(index, prompt, policy.encode(prompt)) for index, prompt in enumerate(prompts)]
    settings = PlaySettings(policy, DecodeLoop(), SingleTurn(), Temperature(), 2, 40, (), 0, "held_out")
    entries = [
        RewardEntry(reward=FunctionReward(function=share)),
        RewardEntry(reward=FunctionReward(function=length), weight=0.5),
    ]
    with Firewall(entries) as firewall:
        return evaluate(settings, firewall, groups, [0, 4, 5], **{"version": 17, "threshold": 0.25} | changed)


def test_rows(policy: CausalLM) -> None:
    rows = run(policy)
    assert [(row.index, row.episode.member) for row in rows] == [(0, 0), (0, 1), (4, 0), (4, 1), (5, 0), (5, 1)]
    for row in rows:
        letter = row.episode.prompt.columns["answer"]
        score = row.episode.completion.count(letter) / 4 if letter else None
        assert row.components == {"share": score, "length": float(row.length)}
        assert row.reward == pytest.approx((score or 0.0) + 0.5 * row.length)
        assert row.correct == (score is not None and score >= 0.25)
        assert row.length == len(row.episode.turns[0].token_ids)
        assert row.log_prob == pytest.approx(sum(row.episode.log_probs))
        assert row.answer == row.episode.completion.strip()
    assert {row.correct for row in rows} == {True, False}
    assert [row.statistics()["prompt_index"] for row in rows] == [0, 0, 4, 4, 5, 5]


def test_draws_do_not_depend_on_the_update(policy: CausalLM) -> None:
    rows = run(policy)
    assert [row.episode.completion for row in run(policy)] == [row.episode.completion for row in rows]


def test_predictions_are_plain_values(policy: CausalLM) -> None:
    found = run(policy)[2].prediction()
    assert found["dataset"] == "train"
    assert (found["index"], found["sample"], found["prompt"]) == (35, 0, "b")
    assert found["finish"] in ("stop", "length")
    assert found["components"]["share"] is None
    assert found["turns"] == [found["completion"]]
