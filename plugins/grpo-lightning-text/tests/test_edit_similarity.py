from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_text import EditSimilarity
from grpo_lightning_text.edit_similarity import distance
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.errors import DataError


def slow_distance(one: str, other: str) -> int:
    """The recurrence itself: d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [x_i != y_j])."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        above, row = row, [i]
        for j, right in enumerate(other, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right)))
    return row[-1]


@settings(max_examples=60, deadline=None)
@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_distance_is_the_recurrence(one: str, other: str) -> None:
    assert distance(one, other) == slow_distance(one, other)


def test_distance_of_more_than_a_machine_word() -> None:
    assert distance("ab" * 100, "ab" * 90 + "c") == 20
    assert distance("a" * 500, "") == 500


@pytest.mark.parametrize(
    ("completion", "right", "score"),
    [
        ("kitten", "sitting", 1 - 3 / 7),
        ("flaw", "lawn", 1 - 2 / 4),
        (" same\n", "same", 1.0),
        ("abc", "xyz", 0.0),
        ("", "abc", 0.0),
        ("seven", ["7", "eleven"], 1 - 2 / 6),  # el for s: one replaced, one inserted
        ("A", "a", 0.0),
        ("x" * 20_001, "x", 0.0),
    ],
)
def test_worked_out_by_hand(completion: str, right: Any, score: float) -> None:
    assert EditSimilarity().score(completions=[completion], answer=[right]) == [pytest.approx(score)]


def test_pattern_and_case() -> None:
    reward = EditSimilarity(pattern="<a>(.*?)</a>", ignore_case=True)
    assert reward.score(completions=["so <a>AB</a>", "ab"], answer=["ab", "ab"]) == [1.0, 0.0]


def test_column() -> None:
    assert EditSimilarity().score(completions=["a"], answer=[None]) == [None]
    with pytest.raises(DataError, match="is no reference"):
        EditSimilarity().score(completions=["a"], answer=[""])
