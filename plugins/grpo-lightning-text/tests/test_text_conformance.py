"""The conformance kit over every reward of the package."""

from __future__ import annotations

import pytest
from grpo_lightning_text import grpo_register_reward

import grpo_lightning
from grpo_lightning.testing import Check, Specimen, parametrize_with_checks

REWARDS = grpo_register_reward()
MORE = [
    Specimen(REWARDS[0], {"tokenizer": "char", "order": 2}, REWARDS[0].example_columns),
    *(
        Specimen(each, {"pattern": "<a>(.*?)</a>"}, each.example_columns)
        for each in REWARDS
        if each.name in ("box_iou", "box_giou", "edit_similarity", "interval_iou", "set_f1")
    ),
]


@parametrize_with_checks([*REWARDS, *MORE])
def test_conforms(check: Check, specimen: Specimen) -> None:
    check.run(specimen)


@pytest.mark.parametrize("reward", REWARDS, ids=lambda each: each.name)
def test_short_name_is_known_once_the_package_is_installed(reward: type) -> None:
    assert type(grpo_lightning.create("reward", reward.name, **reward.example)) is reward


HOSTILE = [
    "[" * 1_000_000,
    "{" * 1_000_000,
    '{"a":' * 200_000,
    "[" * 5_000 + "]" * 5_000,
    '{"a": ' + "9" * 100_000 + "}",
    '{"a": 1e999999999}',
    "9" * 1_000_000,
    "1," * 500_000,
    "1:" * 500_000,
    "-" * 1_000_000,
    "(" + "1 " * 500_000 + ")",
    "a b " * 250_000,
    "\ud800\x00" * 1_000,
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("reward", REWARDS, ids=lambda each: each.name)
def test_no_completion_hangs_or_raises(reward: type) -> None:
    made = reward(**reward.example)
    made.setup()
    columns = {name: [values[0]] * len(HOSTILE) for name, values in reward.example_columns.items()}
    given = {"completions": HOSTILE}
    if reward.name == "length_band":
        given = {"lengths": [len(text) for text in HOSTILE], "turns": [[]] * len(HOSTILE)}
    scores = made.score(**given, **columns)
    assert len(scores) == len(HOSTILE)
    assert all(score is not None and -1 <= score <= 1 for score in scores)
