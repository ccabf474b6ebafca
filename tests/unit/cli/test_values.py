from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import pytest

from grpo_lightning.cli.values import check_type, expected
from grpo_lightning.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "hint", "read"),
    [
        (8, int, 8),
        (8, float, 8.0),
        ("a", str, "a"),
        (True, bool, True),
        ("a", Literal["a", "b"], "a"),
        (["a"], list[str], ["a"]),
        (["+"], Sequence[str], ["+"]),
        ({"prompt": "question"}, dict[str, str] | None, {"prompt": "question"}),
        ({"task": ["a"]}, dict[str, Any], {"task": ["a"]}),
        (0.5, float | None, 0.5),
        (object, Any, object),
    ],
)
def test_right_types_pass(value: Any, hint: Any, read: Any) -> None:
    assert check_type("model.x", value, hint) == read


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        ("eight", int, "'eight' has the wrong type; set an integer"),
        (8.5, int, "8.5 has the wrong type; set an integer"),
        (True, int, "True has the wrong type; set an integer"),
        ("a", float, "'a' has the wrong type; set a number"),
        (1, bool, "1 has the wrong type; set true or false"),
        ("c", Literal["a", "b"], "'c' is no choice; set 'a' or 'b'"),
        ("x", list[str], "'x' has the wrong type; set a list of texts"),
        ({"a": 1}, dict[str, str], "{'a': 1} has the wrong type; set a mapping of texts"),
        ("a", float | None, "'a' has the wrong type; set a number or null"),
        (5, str, "5 has the wrong type; set text; quotes make text of it ('\"5\"' on the command line)"),
    ],
)
def test_wrong_types_say_what_to_set(value: Any, hint: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_type("model.x", value, hint)
    assert str(raised.value) == f"model.x: {message}"


def test_a_function_is_not_called() -> None:
    assert check_type("x", f"{__name__}.explode", Callable[..., Any] | str) is not None


def explode(completions: list[str]) -> list[float]:
    raise AssertionError


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Iterable[int] | bool, "a list of integers or true or false"),
        (list[Callable[..., Any]], "a list of items, each an import path"),
        (dict, "a mapping"),
        (complex, "a complex"),
    ],
)
def test_types_in_words(hint: Any, words: str) -> None:
    assert expected(hint) == words
