from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given

from grpo_lightning.aggregations.token_mean import TokenMean
from helpers.adversarial import formula_cases
from helpers.aggregation_cases import UpdateCase, expect_step_weights, update_cases
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert TokenMean().step_weights(update_rows()).tolist() == [0.1, 0.1, 0.1, 0.1]
    assert aggregated(TokenMean()) == pytest.approx((2 + 6 + 8 + 2) / 10)


@formula_cases
@given(rows=update_cases)
def test_equals_its_formula(rows: UpdateCase) -> None:
    def weight(update: Sequence[tuple[int, int]], _: int) -> Fraction:
        return Fraction(1, sum(length for length, _ in update))

    expect_step_weights(TokenMean(), rows, weight)


def test_its_equation() -> None:
    assert TokenMean().formula().text == "(1/T) sum_i sum_t"
