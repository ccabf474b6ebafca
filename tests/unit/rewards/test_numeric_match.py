from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.rewards.numeric_match import NumericMatch, last_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        ("It is 42.", 42),
        ("-5", -5),
        ("x = \u22125", -5),
        ("5-3", 3),
        ("(2)-3", 3),
        ("12 - 7", 7),
        ("3, -4", -4),
        ("0.25", Fraction(1, 4)),
        (".5", Fraction(1, 2)),
        ("-.5", Fraction(-1, 2)),
        ("1,234", 1234),
        ("1,234,567.5.", Fraction(2469135, 2)),
        ("1,2", 2),
        ("1,2345", 2345),
        ("3/4", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        ("1e3", 1000),
        ("$1,000", 1000),
        ("50%", 50),
        ("first 1 then 2", 2),
        ("", None),
        ("none", None),
        ("1/0", None),
        ("9" * 5000, None),
    ],
)
def test_last_number(text: str, number: Fraction | int | None) -> None:
    assert last_number(text) == number


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**4))
@settings(max_examples=60, deadline=None)
def test_every_way_to_write_a_number(top: int, bottom: int) -> None:
    assert last_number(f"so {top:,}.") == top
    assert last_number(f"{top}/{bottom}") == Fraction(top, bottom)
    assert last_number(f"= {top / 1000:.3f}") == Fraction(top, 1000)


def test_hostile_text_takes_no_time() -> None:
    start = time.perf_counter()
    for text in ("1," * 5000, "1e" + "9" * 5000, "111," * 3000 + "1", "-" * 10000, "1" * 4000 + "/" + "3" * 4000):
        last_number(text)
    assert time.perf_counter() - start < 5


def test_equality_is_exact_unless_a_tolerance_is_given() -> None:
    completions = ["0.3", "0.30000001", "3/10", "nothing"]
    assert NumericMatch().score(completions=completions, answer=[0.3] * 4) == [1.0, 0.0, 1.0, 0.0]
    assert NumericMatch(tolerance=0.01).score(completions=["0.31", "0.32"], answer=["0.3", "0.3"]) == [1.0, 0.0]


def test_column_may_be_number_or_text_and_none_abstains() -> None:
    expected = [1024, 1024.0, "1,024", "so the result is\n#### 1024", None]
    assert NumericMatch().score(completions=["1024"] * 5, answer=expected) == [1.0, 1.0, 1.0, 1.0, None]


def test_column_without_a_number_is_a_fault_of_the_data() -> None:
    with pytest.raises(DataError, match="in column 'answer' holds no number"):
        NumericMatch().score(completions=["1"], answer=["one"])


def test_pattern_says_where_to_look() -> None:
    reward = NumericMatch(pattern=r"<a>(.*?)</a>")
    assert reward.score(completions=["<a>x = 7</a> or 8", "7"], answer=[7, 7]) == [1.0, 0.0]
    assert reward.answer("<a>7</a>") == "7"


def test_answers_that_are_equal_vote_together() -> None:
    reward = NumericMatch()
    assert reward.answer("it is 0.50") == reward.answer("1/2") == "1/2"
    assert reward.answer("7.0") == reward.answer("7") == "7"
    assert reward.answer("no idea") == ""


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf")])
def test_tolerance_is_checked(tolerance: float) -> None:
    with pytest.raises(ConfigError, match=r"^tolerance: "):
        NumericMatch(tolerance=tolerance)
