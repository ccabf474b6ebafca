from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.majority import majority_at_k


def majority(answers: list[int], correct: list[bool], k: int) -> float:
    return majority_at_k(torch.tensor(answers), torch.tensor(correct), k)


def slow(answers: list[int], correct: list[bool], k: int) -> Fraction:
    """Every subset in turn; an answer is as right as the share of all its completions that is correct."""
    share = {
        a: Fraction(sum(c for b, c in zip(answers, correct, strict=True) if b == a), answers.count(a)) for a in answers
    }
    scores = []
    for subset in combinations(answers, k):
        votes = Counter(subset)
        winners = [answer for answer, count in votes.items() if count == max(votes.values())]
        scores.append(sum(share[answer] for answer in winners) / Fraction(len(winners)))
    return sum(scores, Fraction(0)) / len(scores)


def test_hand_computed() -> None:
    # Of the three pairs of (7, 7, 3), one agrees on 7 and two are ties of 7 and 3, half right.
    assert majority([7, 7, 3], [True, True, False], 2) == pytest.approx((1 + 0.5 + 0.5) / 3, abs=1e-12)
    assert majority([7, 7, 3], [True, True, False], 3) == pytest.approx(1.0, abs=1e-12)
    assert majority([7, 3, 3], [True, False, False], 3) == 0.0
    # Three answers, all different: each is the majority a third of the time.
    assert majority([1, 2, 3], [True, False, False], 3) == pytest.approx(1 / 3, abs=1e-12)


def test_one_vote_is_the_share_of_correct_completions() -> None:
    assert majority([1, 1, 2, 3, 4], [True, True, False, True, False], 1) == pytest.approx(3 / 5, abs=1e-12)


def test_unanimous_correctness_is_exact() -> None:
    assert majority([1, 2, 2, 5], [True] * 4, 3) == 1.0
    assert majority([1, 2, 2, 5], [False] * 4, 3) == 0.0


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=9), st.data())
@settings(max_examples=60, deadline=None)
def test_equals_the_mean_over_all_subsets(pairs: list[tuple[int, bool]], data: st.DataObject) -> None:
    answers, correct = [answer for answer, _ in pairs], [flag for _, flag in pairs]
    k = data.draw(st.integers(1, len(pairs)))
    assert majority(answers, correct, k) == pytest.approx(float(slow(answers, correct, k)), abs=1e-12)


def test_names_and_order_of_answers_do_not_matter() -> None:
    answers, correct = [5, 5, 9, 9, 9, 2], [True, True, False, False, False, True]
    renamed = [{5: 1, 9: -3, 2: 70}[answer] for answer in answers]
    expected = majority(answers, correct, 4)
    assert majority(renamed[::-1], correct[::-1], 4) == pytest.approx(expected, abs=1e-12)


def test_many_completions_neither_overflow_nor_take_long() -> None:
    # Of 3000 completions two thirds agree: a majority of 1500 misses them with a chance far below rounding.
    answers = [0] * 2000 + [1] * 1000
    assert majority(answers, [True] * 2000 + [False] * 1000, 1500) == pytest.approx(1.0, abs=1e-9)


def test_k_of_all_completions_is_the_vote_itself() -> None:
    assert majority([4, 4, 6, 6, 1], [True, True, False, False, False], 5) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("k", [0, 3])
def test_k_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="k is"):
        majority([1, 2], [True, False], k)
