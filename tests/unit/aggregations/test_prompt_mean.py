from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given

from grpo_lightning.aggregations.prompt_mean import PromptMean
from helpers.adversarial import formula_cases
from helpers.aggregation_cases import UpdateCase, expect_step_weights, update_cases
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    # Group 7 has rows of 1, 3 and 4 steps, group 9 one of 2.
    weights = PromptMean().step_weights(update_rows()).tolist()
    assert weights == pytest.approx([1 / 16, 1 / 16, 1 / 4, 1 / 16])
    assert aggregated(PromptMean()) == pytest.approx(((2 + 6 + 2) / 8 + 8 / 2) / 2)


@formula_cases
@given(rows=update_cases)
def test_equals_its_formula(rows: UpdateCase) -> None:
    def weight(update: Sequence[tuple[int, int]], index: int) -> Fraction:
        groups = {group for _, group in update}
        own = sum(length for length, group in update if group == update[index][1])
        return Fraction(1, len(groups)) / own

    expect_step_weights(PromptMean(), rows, weight)


def test_its_equation() -> None:
    assert PromptMean().formula().text == "(1/P) sum_g (1/T_g) sum_(i in g) sum_t"
