from __future__ import annotations

import math

import pytest
from grpo_lightning_text import BLEU

from grpo_lightning.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("completion", "references", "score"),
    [
        ("a b c d", "a b c d", 1.0),
        ("a b c e", "a b c d", (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4)),  # no 4-gram: 1 / (2 * 1)
        ("a b", "a b c d", math.exp(1 - 4 / 2)),  # all 1- and 2-grams; half as long
        ("a b", ["a b c d", "a b"], 1.0),  # the second is as long
        ("a c", ["a b", "c d"], math.sqrt(1.0 * 1 / (2 * 1))),  # both words, in one reference each; no 2-gram
        ("a a", "a b", math.sqrt(1 / 2 * 1 / (2 * 1))),  # a counts once
        ("x y", "a b", 0.0),
        ("", "a b", 0.0),
        (" ", "a", 0.0),
    ],
)
def test_worked_out_by_hand(completion: str, references: str | list[str], score: float) -> None:
    assert BLEU().score(completions=[completion], answer=[references]) == [pytest.approx(score)]


def test_order_one_is_precision_times_brevity() -> None:
    assert BLEU(order=1).score(completions=["a b c e"], answer=["a b c d"]) == [pytest.approx(3 / 4)]


def test_characters_can_be_words() -> None:
    (score,) = BLEU(order=2, tokenizer="char").score(completions=["ab"], answer=["ac"])
    assert score == pytest.approx(math.sqrt(1 / 2 * 1 / 2))


def test_lowercase() -> None:
    assert BLEU(lowercase=True).score(completions=["A B"], answer=["a b"]) == [pytest.approx(1.0)]
    assert BLEU().score(completions=["A B"], answer=["a b"]) == [0.0]


def test_abstains_without_reference_and_refuses_empty_ones() -> None:
    assert BLEU().score(completions=["a"], answer=[None]) == [None]
    for wrong in ("", [], ["a", " "], 7):
        with pytest.raises(DataError, match="is no reference"):
            BLEU().score(completions=["a"], answer=[wrong])


def test_another_column() -> None:
    assert BLEU(column="target").score(completions=["a"], target=["a"]) == [pytest.approx(1.0)]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="order"):
        BLEU(order=0)
    with pytest.raises(ConfigError, match="tokenizer"):
        BLEU(tokenizer="flores200")  # would download a model
