from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_text.json_text import DEEPEST, first_list, first_object


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": {"b": []}}\n```', {"a": {"b": []}}),
        ('first {"a": 1} then {"a": 2}', {"a": 1}),
        ('set {1, 2}: {"a": 1}', {"a": 1}),  # the first brace begins no JSON
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("{}", {}),
        ('{"a": NaN}', None),
        ('{"a": -Infinity}', None),
        ('{"a": 1e999}', None),
        ('{"a": 1', None),
        ("{'a': 1}", None),
        ("[1]", None),
        ("", None),
    ],
)
def test_first_object(text: str, found: Any) -> None:
    assert first_object(text) == found


def test_first_list() -> None:
    assert first_list('so [1, "x"] and [2]') == [1, "x"]
    assert first_list("[x] [3]") == [3]
    assert first_list('{"a": 1}') is None


def test_deep_values_are_none() -> None:
    deepest = '{"a":' + "[" * (DEEPEST - 2) + "]" * (DEEPEST - 2) + "}"
    assert first_object(deepest) is not None
    assert first_object('{"a":' + "[" * 5000 + "]" * 5000 + "}") is None
