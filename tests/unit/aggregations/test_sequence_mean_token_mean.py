from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given

from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
from helpers.adversarial import formula_cases
from helpers.aggregation_cases import UpdateCase, expect_step_weights, update_cases
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    weights = SequenceMeanTokenMean().step_weights(update_rows()).tolist()
    assert weights == pytest.approx([1 / 4, 1 / 12, 1 / 8, 1 / 16])
    assert aggregated(SequenceMeanTokenMean()) == pytest.approx((2 / 1 + 6 / 3 + 8 / 2 + 2 / 4) / 4)


@formula_cases
@given(rows=update_cases)
def test_equals_its_formula(rows: UpdateCase) -> None:
    def weight(update: Sequence[tuple[int, int]], index: int) -> Fraction:
        return Fraction(1, len(update)) / update[index][0]

    expect_step_weights(SequenceMeanTokenMean(), rows, weight)


def test_its_equation() -> None:
    assert SequenceMeanTokenMean().formula().text == "(1/N) sum_i (1/l_i) sum_t"
