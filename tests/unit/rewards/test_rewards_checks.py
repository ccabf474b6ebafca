"""What is wrong with calls of rewards is said before weights load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.checks import check_calls
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward


def tie_break(completions: Sequence[str], base_rewards: Sequence[float | None]) -> list[float]:
    return [0.0] * len(completions)


def with_update(completions: Sequence[str], update: int) -> list[float]:
    return [0.0] * len(completions)


def entry(function: Any, **fields: Any) -> RewardEntry:
    return RewardEntry(reward=FunctionReward(function=function), **fields)


def test_what_others_gave_needs_others() -> None:
    text = r"^model\.rewards\.0\.reward: 'tie_break' asks for base_rewards, and no other reward of the list counts; add one"
    for others in ([], [RewardEntry(reward=ExactMatch(), log_only=True)], [entry(tie_break, name="again")]):
        with pytest.raises(ConfigError, match=text):
            check_calls([entry(tie_break), *others], "model.rewards")
    check_calls([entry(tie_break), RewardEntry(reward=ExactMatch())], "model.rewards")


def test_the_entry_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^model\.rewards\.1\.cache: 'x\.db' holds scores by arguments"):
        check_calls([RewardEntry(reward=ExactMatch()), entry(with_update, cache="x.db")], "model.rewards")
    with pytest.raises(ConfigError, match=r"^model\.rewards\.0\.isolation: 'process'"):
        check_calls([entry(lambda completions: [0.0], isolation="process")], "model.rewards")
