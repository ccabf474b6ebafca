"""A rollout as it is reported."""

from __future__ import annotations

from dataclasses import replace

import torch

from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.samples import prompt_text, rollout_report
from grpo_lightning.types import Episode, FinishReason, Turn
from helpers.hand_loss import HandRow, to_collected
from helpers.tiny_policy import text_prompt

NAN = float("nan")


def collected() -> Collected:
    rows = [
        HandRow(group, [3] * (1 + group), [5, 6], [True, True], 0.5, mu=[-1.0, -2.0]) for group in (0, 0, 1, 1, 2, 2)
    ]
    made = to_collected(rows)
    turns = [Turn([5, 6], "xy", FinishReason.STOP, "no"), Turn([5], "z", FinishReason.LENGTH)]
    made.episodes = [
        Episode(text_prompt("ab", group), group, member, list(turns), [-1.0, -2.0])
        for group in range(3)
        for member in range(2)
    ]
    table = replace(
        made.gathered.table,
        rewards_R=torch.tensor([1.0, NAN, 0.0, 0.0, 2.0, 2.0], dtype=torch.float64),
        components={"exact": torch.tensor([1.0, NAN, 0.0, 0.0, 2.0, 2.0], dtype=torch.float64)},
    )
    made.gathered = replace(made.gathered, table=table)
    made.redrawn, made.sampled_steps, made.seconds = 3, 12, {"generate": 0.5}
    made.reward_counts = {"exact": {"failures": 2.0, "seconds": 0.5}}
    return made


def test_report() -> None:
    run_R = torch.tensor([True, False, True, True, False, False])
    report = rollout_report(collected(), run_R, rollout=4, update=9, compares=True)
    assert (report.rollout, report.update, report.compares) == (4, 9, True)
    assert (report.groups_redrawn, report.sampled_steps, report.prompt_steps) == (3, 12, 1 + 2 + 3)
    assert torch.equal(report.run_R, run_R)
    assert report.reward_failures == {"exact": 2}
    assert report.reward_counts == {"exact": {"failures": 2.0, "seconds": 0.5}}
    assert report.seconds == {"generate": 0.5}


def test_samples_are_the_rows_of_the_first_groups() -> None:
    samples = rollout_report(collected(), torch.ones(6, dtype=torch.bool), 0, 0, True).samples
    assert [(sample.group, sample.member) for sample in samples] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    first, second = samples[:2]
    assert first.turns == ["xy", "no", "z"]
    assert (first.prompt, first.length, first.finish, first.advantage) == ("ab", 2, "length", 0.5)
    assert (first.reward, first.components) == (1.0, {"exact": 1.0})
    assert (second.reward, second.components) == (None, {"exact": None})


def test_chat_prompts_as_text() -> None:
    messages = [{"role": "system", "content": "be short"}, {"role": "user", "content": "2+3"}]
    assert prompt_text(Episode(text_prompt(messages), 0, 0)) == "system: be short\nuser: 2+3"
