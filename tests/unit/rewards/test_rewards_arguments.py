from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.rewards.arguments import check_columns, collect_arguments, requested_arguments
from grpo_lightning.rewards.base import RESERVED_ARGUMENTS
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.regex import Regex
from grpo_lightning.types import FinishReason


def some(completions: list[str], answer: list[Any], hint: list[Any] | None = None) -> list[float]:
    return [0.0] * len(completions)


def everything(**arguments: Any) -> list[float]:
    return []


def entry(function: Any, **settings: Any) -> RewardEntry:
    return RewardEntry(reward=FunctionReward(function=function), **settings)


def test_signature_says_what_is_asked_for() -> None:
    assert requested_arguments(FunctionReward(function=some)) == (["completions", "answer"], ["hint"], False)
    assert requested_arguments(FunctionReward(function=everything)) == ([], [], True)
    assert requested_arguments(Regex(pattern="a")) == (["completions"], [], False)


def test_settings_name_columns() -> None:
    assert requested_arguments(ExactMatch(column="solution")) == (["completions", "solution"], [], False)


def test_arguments_by_position_only_are_refused() -> None:
    def by_position(completions: list[str], /) -> list[float]:
        return []

    with pytest.raises(ConfigError, match="takes 'completions' by position only"):
        requested_arguments(FunctionReward(function=by_position))
    with pytest.raises(ConfigError, match=r"^rewards\[0\]\.reward: 'by_position' takes"):
        check_columns([entry(by_position)], [], "rewards")


def test_columns_that_fit_pass() -> None:
    check_columns([entry(some), entry(everything)], ["prompt", "answer"], "model.rewards")


def test_unknown_argument_is_named_with_near_columns() -> None:
    with pytest.raises(
        ConfigError, match=r"^model\.rewards\[1\]\.reward: 'answer' is asked for by reward 'some'.*answers"
    ):
        check_columns([entry(everything), entry(some)], ["prompt", "answers"], "model.rewards")


def test_configured_column_must_be_a_column() -> None:
    # `completions` is reserved: compared with itself it would always be right.
    with pytest.raises(ConfigError, match="'completions' is asked for"):
        check_columns([RewardEntry(reward=ExactMatch(column="completions"))], ["answer"], "rewards")
    with pytest.raises(ConfigError, match="'prompt' is asked for"):
        check_columns([RewardEntry(reward=ExactMatch(column="prompt"))], ["prompt"], "rewards")


def test_routing_column_must_be_a_column() -> None:
    with pytest.raises(ConfigError, match=r"^rewards\[0\]\.when: 'tusk' is no column of the data; did you mean 'task'"):
        check_columns([entry(everything, when={"tusk": 1})], ["task"], "rewards")


@pytest.mark.parametrize("name", sorted(RESERVED_ARGUMENTS))
def test_column_with_a_reserved_name_is_named(name: str) -> None:
    with pytest.raises(DataError, match=f"'{name}' is a column of the data, but rewards get"):
        check_columns([entry(everything)], ["prompt", name], "rewards")


def test_reserved_arguments_have_one_entry_a_row(episodes) -> None:
    rows = episodes(["ab", ["c", "de"], None], answer=[1, 2, 3])
    rows[0].turns[-1].finish = FinishReason.LENGTH
    got = collect_arguments(entry(everything), rows, update=4, stage="held_out")
    assert got.pop("turns") == [row.turns for row in rows]
    assert got == {
        "prompts": ["2+3="] * 3,
        "completions": ["ab", "de", ""],
        "completion_ids": [[97, 98], [100, 101], []],
        "groups": [0, 0, 1],
        "members": [0, 1, 0],
        "finish_reasons": [FinishReason.LENGTH, FinishReason.STOP, FinishReason.STOP],
        "lengths": [2, 3, 0],
        "log_probs": [[-0.5] * 2, [-0.5] * 3, []],
        "update": 4,
        "stage": "held_out",
        "answer": [1, 2, 3],
    }


def test_optional_argument_comes_only_if_there_is_a_column(episodes) -> None:
    assert set(collect_arguments(entry(some), episodes(["a"], answer=[1]), update=0, stage="train")) == {
        "completions",
        "answer",
    }
    rows = episodes(["a", "b"], answer=[1, 2], hint=["x", None])
    assert collect_arguments(entry(some), rows, update=0, stage="train")["hint"] == ["x", None]


def test_row_that_lacks_a_column_is_an_error(episodes) -> None:
    rows = [*episodes(["a"], answer=[1]), *episodes(["b"])]
    with pytest.raises(ConfigError, match="'answer' is asked for by reward 'some', but data set 'train'"):
        collect_arguments(entry(some), rows, update=0, stage="train")
