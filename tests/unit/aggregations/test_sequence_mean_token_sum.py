from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given

from grpo_lightning.aggregations.sequence_mean_token_sum import SequenceMeanTokenSum
from helpers.adversarial import formula_cases
from helpers.aggregation_cases import UpdateCase, expect_step_weights, update_cases
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert SequenceMeanTokenSum().step_weights(update_rows()).tolist() == [0.25, 0.25, 0.25, 0.25]
    assert aggregated(SequenceMeanTokenSum()) == pytest.approx((2 + 6 + 8 + 2) / 4)


@formula_cases
@given(rows=update_cases)
def test_equals_its_formula(rows: UpdateCase) -> None:
    def weight(update: Sequence[tuple[int, int]], _: int) -> Fraction:
        return Fraction(1, len(update))

    expect_step_weights(SequenceMeanTokenSum(), rows, weight)


def test_its_equation() -> None:
    assert SequenceMeanTokenSum().formula().text == "(1/N) sum_i sum_t"
