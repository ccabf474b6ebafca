from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given

from grpo_lightning.aggregations.constant_length import ConstantLength
from grpo_lightning.errors import ConfigError
from helpers.adversarial import formula_cases
from helpers.aggregation_cases import UpdateCase, expect_step_weights, update_cases
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert ConstantLength(length=5).step_weights(update_rows()).tolist() == [0.05, 0.05, 0.05, 0.05]
    assert aggregated(ConstantLength(length=5)) == pytest.approx((2 + 6 + 8 + 2) / (4 * 5))


def test_the_constant_is_the_configured_one_whatever_the_rows() -> None:
    short, long = update_rows([1, 1], [0, 0]), update_rows([1, 900], [0, 0])
    loss = ConstantLength(length=10)
    assert loss.step_weights(short).tolist() == loss.step_weights(long).tolist()


@pytest.mark.parametrize("length", [0, -3])
def test_lengths_below_one_are_refused(length: int) -> None:
    with pytest.raises(ConfigError, match=r"^length: "):
        ConstantLength(length=length)


@formula_cases
@given(rows=update_cases)
def test_equals_its_formula(rows: UpdateCase) -> None:
    def weight(update: Sequence[tuple[int, int]], _: int) -> Fraction:
        return Fraction(1, len(update) * 1000)

    expect_step_weights(ConstantLength(length=1000), rows, weight)


def test_its_equation() -> None:
    assert ConstantLength(length=1000).formula().text == "(1/(N 1000)) sum_i sum_t"
