from __future__ import annotations

import pytest
from grpo_lightning_palindrome import Palindrome

import grpo_lightning
from grpo_lightning.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("level", 1.0),  # l=l, e=e; the middle letter has no partner
        ("Never odd or even", 1.0),
        ("A man, a plan, a canal: Panama!", 1.0),
        ("abxa", 0.5),  # a=a, b and x differ
        ("abcdea", 1 / 3),  # a=a of three pairs
        ("ab", 0.0),
        ("aa", 1.0),
        ("a", 0.0),
        ("", 0.0),
        ("!?", 0.0),
    ],
)
def test_share_of_mirrored_pairs(text: str, score: float) -> None:
    assert Palindrome().score(completions=[text]) == [pytest.approx(score)]


def test_short_completions_score_nothing() -> None:
    assert Palindrome(min_length=5).score(completions=["abba", "level"]) == [0.0, 1.0]


def test_one_score_a_row_in_order() -> None:
    assert Palindrome().score(completions=["aa", "ab", "aa"]) == [1.0, 0.0, 1.0]


def test_min_length_is_checked() -> None:
    with pytest.raises(ConfigError, match="min_length: 1 is outside"):
        Palindrome(min_length=1)


def test_short_name_is_known_once_the_package_is_installed() -> None:
    reward = grpo_lightning.create("reward", "palindrome", min_length=3)
    assert isinstance(reward, Palindrome)
    assert reward.min_length == 3
