"""Aggregations against their formula, with fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from grpo_lightning.aggregations.base import Aggregation
from helpers.update_rows import update_rows

UpdateCase = list[tuple[int, int]]
"""Length and group of every row of an update."""

update_cases: st.SearchStrategy[Any] = st.lists(
    st.tuples(st.one_of(st.sampled_from([1, 2, 2000]), st.integers(1, 2000)), st.integers(0, 5)), max_size=40
)
"""Updates of up to 40 rows of 1 to 2000 steps in up to six groups, in any order."""

Weight = Callable[[Sequence[tuple[int, int]], int], Fraction]
"""From the rows and the index of one to the weight of each of its steps."""


def expect_step_weights(aggregation: Aggregation, rows: UpdateCase, weight: Weight) -> None:
    """Hold the weight of every row's steps against ``weight``: right to the last digits of float64."""
    found = aggregation.step_weights(update_rows([row[0] for row in rows], [row[1] for row in rows])).tolist()
    assert len(found) == len(rows)
    for index, value in enumerate(found):
        wanted = weight(rows, index)
        assert abs(Fraction(value) - wanted) <= wanted * Fraction(4, 2**53), f"row {index}: {value}, not {wanted}"
