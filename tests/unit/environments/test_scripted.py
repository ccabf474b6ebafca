from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.environments.scripted import Scripted
from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.types import Episode, FinishReason, Prompt, Turn


def episode(texts: list[str], **columns: Any) -> Episode:
    turns = [Turn([1], text, FinishReason.STOP) for text in texts]
    return Episode(Prompt("train", 3, "2+3=", columns), 0, 0, turns)


def shown(environment: Scripted, *episodes: Episode) -> list[str | None]:
    environment.start(episodes)
    return [observation.text for observation in environment.step(episodes)]


def test_each_turn_has_its_reply() -> None:
    environment = Scripted(replies=["first", "second"])
    assert environment.max_turns == 3
    assert shown(environment, episode(["a"]), episode(["a", "b"]), episode(["a", "b", "c"])) == [
        "first",
        "second",
        None,
    ]


def test_turns_can_be_fewer_than_replies_need() -> None:
    assert Scripted(replies=["first", "second"], turns=2).max_turns == 2


def test_placeholders() -> None:
    environment = Scripted(replies=["{completion} or {answer}? {{kept}} {answer}"])
    row = episode(["{answer}"], answer=5)
    # What the policy wrote is not filled in itself.
    assert shown(environment, row) == ["{answer} or 5? {kept} 5"]


def test_unknown_placeholder_is_named_before_the_first_turn() -> None:
    environment = Scripted(replies=["ok", "it was {anwser}"])
    with pytest.raises(ConfigError, match=r"replies: '{anwser}' is no column of the prompt; did you mean 'answer'"):
        environment.start([episode([], answer=5)])


@pytest.mark.parametrize("reply", ["{", "}", "{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}"])
def test_only_plain_names_are_placeholders(reply: str) -> None:
    with pytest.raises(ConfigError, match=r"^replies: "):
        Scripted(replies=[reply])


def test_replies_of_the_prompt() -> None:
    environment = Scripted(column="hints", turns=3)
    rows = [
        episode(["a"], hints="{verbatim}"),
        episode(["a", "b"], hints="one"),
        episode(["a", "b"], hints=["one", "two"]),
        episode(["a"], hints=[]),
        episode(["a"], hints=None),
    ]
    assert shown(environment, *rows) == ["{verbatim}", None, "two", None, None]


def test_column_must_be_there_and_hold_texts() -> None:
    environment = Scripted(column="hints", turns=2)
    with pytest.raises(ConfigError, match=r"column: 'hints' is no column of the prompt; did you mean 'hint'"):
        environment.start([episode([], hint="x")])
    with pytest.raises(DataError, match="row 3 of 'train', is neither a text nor a list of texts"):
        environment.start([episode([], hints=[1])])


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("replies", {}),
        ("replies", {"replies": ["a"], "column": "b"}),
        ("replies", {"replies": "abc"}),
        ("turns", {"column": "b"}),
        ("turns", {"replies": ["a"], "turns": 0}),
        ("max_observation_tokens", {"replies": ["a"], "max_observation_tokens": 0}),
    ],
)
def test_settings_are_checked(setting: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^{setting}: "):
        Scripted(**arguments)
