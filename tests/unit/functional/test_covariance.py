from __future__ import annotations

from fractions import Fraction

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.covariance import covariances

pairs = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-20, 0)), min_size=1, max_size=12)


def test_by_hand() -> None:
    # Means 1 and 4; deviations -1, -1, 2 and 1, -4, 3.
    first, second = torch.tensor([0.0, 0.0, 3.0]).double(), torch.tensor([5.0, 0.0, 7.0]).double()
    assert covariances(first, second).tolist() == [-1.0, 4.0, 6.0]


def test_equal_values_have_part_zero_exactly() -> None:
    other = torch.linspace(-9, -1, 10).double()
    for value in (0.1, 1 / 3, 1e6 / 7, 1e-6 / 7):
        assert covariances(torch.full((10,), value).double(), other).tolist() == [0.0] * 10
        assert covariances(other, torch.full((10,), value).double()).tolist() == [0.0] * 10


def test_one_pair_and_none() -> None:
    assert covariances(torch.tensor([3.0]).double(), torch.tensor([-2.0]).double()).tolist() == [0.0]
    empty = torch.zeros(0, dtype=torch.float64)
    assert covariances(empty, empty).tolist() == []


@settings(max_examples=60, deadline=None)
@given(values=pairs)
def test_equals_exact_arithmetic(values: list[tuple[float, float]]) -> None:
    count = len(values)
    first = sum((Fraction(value) for value, _ in values), Fraction(0)) / count
    second = sum((Fraction(value) for _, value in values), Fraction(0)) / count
    expected = [float((Fraction(x) - first) * (Fraction(y) - second)) for x, y in values]
    found = covariances(*(torch.tensor(each, dtype=torch.float64) for each in zip(*values, strict=True)))
    # Deviations carry the rounding of their values, not of themselves.
    bound = 1e-15 * count * max(abs(x) for x, _ in values) * max(abs(y) for _, y in values)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=bound)
