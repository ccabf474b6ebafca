from __future__ import annotations

import pytest
from grpo_lightning_text import Repetition

from grpo_lightning.errors import ConfigError


@pytest.mark.parametrize(
    ("n", "unit", "text", "score"),
    [
        (2, "words", "a b c d", 0.0),
        (2, "words", "a b a b a", -1 / 2),  # ab ba ab ba: two distinct of four
        (1, "words", "a A a a", -3 / 4),
        (3, "words", "a b", 0.0),  # too short for one
        (3, "words", "a b c", 0.0),  # one
        (3, "words", "", 0.0),
        (2, "characters", "aaaa", -2 / 3),  # aa aa aa
        (2, "characters", "abab", -1 / 3),  # ab ba ab
        (1, "characters", "abc", 0.0),
    ],
)
def test_worked_out_by_hand(n: int, unit: str, text: str, score: float) -> None:
    assert Repetition(n=n, unit=unit).score(completions=[text]) == [pytest.approx(score)]


def test_case_can_count() -> None:
    assert Repetition(n=1, ignore_case=False).score(completions=["a A"]) == [0.0]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="n: 0"):
        Repetition(n=0)
    with pytest.raises(ConfigError, match="unit"):
        Repetition(unit="lines")
