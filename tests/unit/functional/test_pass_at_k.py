from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.pass_at_k import pass_at_k, pass_hat_k


def test_hand_computed() -> None:
    samples, correct = torch.tensor([4, 4, 4, 10]), torch.tensor([0, 2, 4, 1])
    # n = 4, c = 2, k = 2: one of the six pairs holds no correct completion, one holds two.
    assert pass_at_k(samples, correct, 2).tolist() == pytest.approx([0, 5 / 6, 1, 1 - 36 / 45], abs=1e-15)
    assert pass_hat_k(samples, correct, 2).tolist() == pytest.approx([0, 1 / 6, 1, 0], abs=1e-15)


def test_k_of_one_is_the_share_of_correct_completions() -> None:
    samples, correct = torch.tensor([7, 3]), torch.tensor([2, 3])
    assert pass_at_k(samples, correct, 1).tolist() == [2 / 7, 1.0]
    assert pass_hat_k(samples, correct, 1).tolist() == [2 / 7, 1.0]


@given(st.integers(1, 9), st.data())
@settings(max_examples=60, deadline=None)
def test_equals_the_share_of_subsets(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    flags = [True] * c + [False] * (n - c)
    subsets = list(combinations(flags, k))
    samples, correct = torch.tensor([n]), torch.tensor([c])
    assert pass_at_k(samples, correct, k).item() == float(Fraction(sum(map(any, subsets)), len(subsets)))
    assert pass_hat_k(samples, correct, k).item() == float(Fraction(sum(map(all, subsets)), len(subsets)))


def test_binomials_beyond_float64_are_safe() -> None:
    n, c, k = 5000, 3, 2500
    assert comb(n, k) > 10**1000
    wanted = 1 - Fraction(comb(n - c, k), comb(n, k))
    assert pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item() == float(wanted)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 0), (4, 2, 5), (4, 5, 2), (4, -1, 2)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=r"k is|cannot be correct"):
            estimate(torch.tensor([n]), torch.tensor([c]), k)
