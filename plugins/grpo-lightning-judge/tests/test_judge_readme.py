"""What the README says can be run."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from grpo_lightning_judge import Endpoint, grpo_register_reward

import grpo_lightning
from grpo_lightning.rewards.entry import RewardEntry

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def entries(block: str) -> list[dict[str, Any]]:
    text = (
        block
        if block.startswith("model:")
        else "model:\n  rewards:\n" + textwrap.indent(textwrap.dedent(block), "    ")
    )
    text = re.sub(r"^ *advantage:.*\n", "", text, flags=re.MULTILINE)
    return list(yaml.safe_load(text)["model"]["rewards"])


@pytest.mark.parametrize("block", BLOCKS)
def test_entries_can_be_built(block: str) -> None:
    for entry in entries(block):
        reward = dict(entry.pop("reward"))
        made = grpo_lightning.create("reward", reward.pop("name"), **reward)
        assert set(entry) <= {each.name for each in fields(RewardEntry)}
        RewardEntry(reward=made, **entry)


def test_every_reward_has_an_entry() -> None:
    shown = {entry["reward"]["name"] for block in BLOCKS for entry in entries(block)}
    assert {each.name for each in grpo_register_reward()} <= shown


def test_every_setting_of_the_judge_is_in_the_table() -> None:
    assert [each.name for each in fields(Endpoint)] == [
        name for name in re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE) if name in Endpoint.__dataclass_fields__
    ]
