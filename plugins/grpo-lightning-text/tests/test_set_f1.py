from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_text import SetF1

from grpo_lightning.errors import ConfigError, DataError


def score(completion: str, right: Any, **settings: Any) -> float | None:
    return SetF1(**settings).score(completions=[completion], answer=[right])[0]


@pytest.mark.parametrize(
    ("completion", "right", "expected"),
    [
        ("a, b", ["b", "a"], 1.0),
        ("a, b, c", ["a", "d"], 2 / 5),  # P 1/3, R 1/2
        ("a, a, a, b", ["a", "b"], 1.0),  # duplicates are ignored
        (" a ,, b ,", "a,b", 1.0),
        ("1, 2", [1, 2], 1.0),  # numbers as texts
        ("a", ["A"], 0.0),
        ("x", ["a"], 0.0),
        ("", [], 1.0),
        ("", ["a"], 0.0),
        ("a", [], 0.0),
        (" , ", [], 1.0),
    ],
)
def test_worked_out_by_hand(completion: str, right: Any, expected: float) -> None:
    assert score(completion, right) == pytest.approx(expected)


def test_multiset() -> None:
    # a twice of three written; right: a twice, b. Common: a, a.
    assert score("a, a, c", ["a", "a", "b"], multiset=True) == pytest.approx(2 * 2 / (3 + 3))
    assert score("a, a, a, b", ["a", "b"], multiset=True) == pytest.approx(2 * 2 / (4 + 2))


def test_beta() -> None:
    # Common 1, written 4, right 2: P 1/4, R 1/2.
    completion, right = "a, x, y, z", ["a", "b"]
    assert score(completion, right, beta=0) == pytest.approx(1 / 4)
    assert score(completion, right, beta=float("inf")) == pytest.approx(1 / 2)
    assert score(completion, right, beta=2) == pytest.approx(5 * (1 / 4) * (1 / 2) / (4 * (1 / 4) + 1 / 2))


def test_separators() -> None:
    assert score("the  cat\nsat", "the cat", separator=" ") == pytest.approx(2 * 2 / (3 + 2))
    assert score("321", "123", separator="") == 1.0
    assert score("a; b", ["a", "b"], separator=";") == 1.0


def test_json_lists() -> None:
    assert score('They are ["a", 1].', ["a", 1], format="json") == 1.0
    assert score("a, 1", ["a", 1], format="json") == 0.0
    assert score("nothing", [], format="json") == 0.0  # no list is not an empty one
    assert score("[]", [], format="json") == 1.0
    assert score('[["a"], {"b": 1}]', '[["a"], {"b": 1}]', format="json") == 1.0


def test_pattern_and_case() -> None:
    settings = {"pattern": "<a>(.*?)</a>", "ignore_case": True}
    assert score("x, y <a>A, b</a>", ["a", "B"], **settings) == 1.0
    assert score("a, b", ["a", "b"], **settings) == 0.0
    assert score("a, b", [], **settings) == 1.0  # no match, no item


def test_column() -> None:
    assert SetF1().score(completions=["a"], answer=[None]) == [None]
    with pytest.raises(DataError, match="holds no items"):
        score("a", 7)
    with pytest.raises(DataError, match="JSON list"):
        score("[]", "a, b", format="json")


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="format"):
        SetF1(format="csv")
    with pytest.raises(ConfigError, match="beta"):
        SetF1(beta=-1)
