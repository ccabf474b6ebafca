from __future__ import annotations

import pytest
from grpo_lightning_text import ChrF

from grpo_lightning.errors import ConfigError, DataError


def f(precision: float, recall: float, beta: float = 2.0) -> float:
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


@pytest.mark.parametrize(
    ("completion", "references", "score"),
    [
        ("abc", "abc", 1.0),
        ("ab", "abc", f(1, (2 / 3 + 1 / 2) / 2)),  # orders 1 and 2 of both; 2 of 3 characters, 1 of 2 pairs
        ("a b", "ab", 1.0),  # white space is left out
        ("xyz", "abc", 0.0),
        ("", "abc", 0.0),
        ("abc", ["xyz", "abc"], 1.0),
    ],
)
def test_worked_out_by_hand(completion: str, references: str | list[str], score: float) -> None:
    reward = ChrF(characters=2)
    assert reward.score(completions=[completion], answer=[references]) == [pytest.approx(score)]


def test_beta_weighs_recall() -> None:
    assert ChrF(characters=1, beta=1).score(completions=["ab"], answer=["abc"]) == [pytest.approx(f(1, 2 / 3, 1))]


def test_words_count_beside_characters() -> None:
    # Characters: both 2 of 2 right. Words: 0 of 1, 0 of 2. Means: precision 1/2, recall 1/2.
    assert ChrF(characters=1, words=1).score(completions=["ab"], answer=["a b"]) == [pytest.approx(1 / 2)]


def test_lowercase() -> None:
    assert ChrF(lowercase=True).score(completions=["ABC"], answer=["abc"]) == [pytest.approx(1.0)]


def test_abstains_without_reference_and_refuses_empty_ones() -> None:
    assert ChrF().score(completions=["a"], answer=[None]) == [None]
    with pytest.raises(DataError, match="is no reference"):
        ChrF().score(completions=["a"], answer=[""])


@pytest.mark.parametrize("wrong", [{"characters": 0}, {"words": -1}, {"beta": 0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ChrF(**wrong)
