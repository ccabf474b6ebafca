from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.prompts.messages import fault, without_nulls


@pytest.mark.parametrize(
    "prompt",
    [
        "2+3=",
        [{"role": "user", "content": "2+3="}],
        [{"role": "user", "content": "2+3="}, {"role": "assistant", "content": ""}],
        [{"role": "user", "content": [{"type": "text", "text": "2+3="}]}],
    ],
)
def test_prompts(prompt: Any) -> None:
    assert fault(prompt) is None


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (None, "its prompt is empty, neither"),
        ("", "its prompt is empty"),
        (7, "its prompt is of type int, neither"),
        ({"role": "user"}, "its prompt is of type dict, neither"),
        ([], "without messages"),
        (["2+3="], "message 1 of its prompt is of type str"),
        ([{"role": "user", "content": "a"}, {"content": "b"}], "message 2 of its prompt has no `role`"),
        ([{"role": "user", "content": None}], "message 1 of its prompt has no `content`"),
    ],
)
def test_faults(prompt: Any, reason: str) -> None:
    assert reason in str(fault(prompt))


def test_without_nulls() -> None:
    assert without_nulls([{"role": "user", "content": "a", "name": None}]) == [{"role": "user", "content": "a"}]
    assert without_nulls("text") == "text"
