from __future__ import annotations

from fractions import Fraction

from hypothesis import given

from grpo_lightning.aggregations.token_sum import TokenSum
from helpers.adversarial import formula_cases
from helpers.aggregation_cases import UpdateCase, expect_step_weights, update_cases
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert TokenSum().step_weights(update_rows()).tolist() == [1.0, 1.0, 1.0, 1.0]
    assert aggregated(TokenSum()) == 2 + 6 + 8 + 2


@formula_cases
@given(rows=update_cases)
def test_equals_its_formula(rows: UpdateCase) -> None:
    expect_step_weights(TokenSum(), rows, lambda *_: Fraction(1))


def test_its_equation() -> None:
    assert TokenSum().formula().text == "sum_i sum_t"
