from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_text import JSONFields

from grpo_lightning.errors import ConfigError, DataError

RIGHT = {"item": "tea", "price": 3.0, "hot": True}


def score(completion: str, right: Any = None, **settings: Any) -> float | None:
    return JSONFields(**settings).score(completions=[completion], answer=[RIGHT if right is None else right])[0]


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ('{"item": "tea", "price": 3, "hot": true}', 1.0),
        ('Here: {"item": " tea ", "price": 3.0, "hot": true, "more": 1}!', 1.0),
        ('{"item": "tea", "price": 3}', 2 / 3),
        ('{"item": "Tea", "price": 3, "hot": true}', 2 / 3),
        ('{"item": "tea", "price": "3", "hot": true}', 2 / 3),  # text is no number
        ('{"item": "tea", "price": 3, "hot": 1}', 2 / 3),  # 1 is not true
        ('{"item": "tea", "price": NaN, "hot": true}', 0.0),  # no JSON
        ("{}", 0.0),
        ("tea, 3, true", 0.0),
        ("", 0.0),
    ],
)
def test_share_of_fields(completion: str, expected: float) -> None:
    assert score(completion) == pytest.approx(expected)


def test_weights_say_what_counts() -> None:
    completion = '{"item": "tea", "price": 4}'
    assert score(completion, weights={"item": 3, "price": 1}) == pytest.approx(3 / 4)
    assert score(completion, weights={"price": 1}) == 0.0


@pytest.mark.parametrize(
    ("price", "settings", "right"),
    [
        ("3.1", {}, 0.0),
        ("3.25", {"absolute": 0.25}, 1.0),
        ("3.26", {"absolute": 0.25}, 0.0),
        ("3.3", {"relative": 0.11}, 1.0),
        ("3.4", {"relative": 0.11}, 0.0),
        ("3.4", {"relative": 0.11, "absolute": 0.5}, 1.0),  # the larger of both
        ("-3", {"relative": 0.5}, 0.0),
        ("9" * 400, {"relative": 0.5}, 0.0),  # beyond the floats
    ],
)
def test_tolerance(price: str, settings: dict[str, float], right: float) -> None:
    assert score(f'{{"price": {price}}}', weights={"price": 1.0}, **settings) == right


def test_nested_values_have_all_items() -> None:
    right = {"a": [1, {"b": "x"}], "c": None}
    assert score('{"a": [1.0, {"b": "x"}], "c": null}', right) == 1.0
    assert score('{"a": [1, {"b": "y"}], "c": null}', right) == 0.5
    assert score('{"a": [1], "c": 0}', right) == 0.0
    assert score('{"a": [1, {"b": "x", "d": 1}]}', right) == 0.0


def test_ignore_case() -> None:
    assert score('{"item": "TEA"}', {"item": "tea"}, ignore_case=True) == 1.0


def test_expected_object_may_be_text_or_empty_or_missing() -> None:
    assert score('{"a": 1}', '{"a": 1}') == 1.0
    assert score("{}", {}) == 1.0
    assert score("nothing", {}) == 0.0
    assert JSONFields().score(completions=["{}"], answer=[None]) == [None]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}


def test_schema_is_a_gate() -> None:
    completions = ['{"n": 7}', '{"n": 8}', '{"n": 10}', '{"n": 7.5}', "{}", "7"]
    answer = [{"n": 7}] * 6
    assert JSONFields(schema=SCHEMA).score(completions=completions, answer=answer) == [1, 0, 0, 0, 0, 0]
    assert JSONFields(schema=SCHEMA, column=None).score(completions=completions) == [1, 1, 0, 0, 0, 0]


def test_references_are_not_fetched() -> None:
    with pytest.raises(Exception, match=r"(?i)unresolvable"):
        JSONFields(schema={"$ref": "http://localhost:9/x.json"}, column=None).score(completions=["{}"])


@pytest.mark.parametrize("wrong", ["tea", "[1]", 7, [1], "[" * 100_000])
def test_no_object_in_the_column(wrong: Any) -> None:
    with pytest.raises(DataError, match="is no JSON object"):
        score("{}", wrong)


def test_a_weight_without_its_field() -> None:
    with pytest.raises(DataError, match="lacks 'size'"):
        score("{}", {"item": "tea"}, weights={"size": 1.0})


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"column": None}, "column"),
        ({"weights": {}}, "weights"),
        ({"weights": {"a": 0.0}}, "weights.a"),
        ({"absolute": -1.0}, "absolute"),
        ({"relative": float("inf")}, "relative"),
        ({"schema": {"type": "thing"}}, "schema"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        JSONFields(**wrong)
