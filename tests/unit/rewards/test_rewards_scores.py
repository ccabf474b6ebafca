from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from grpo_lightning.rewards.scores import InvalidScore, RowScore, parse_row, read_rows, split_rows, within

EPSILON = 2.0**-52


@pytest.mark.parametrize(
    ("value", "total", "epsilon"),
    [
        (1, 1.0, EPSILON),
        (True, 1.0, EPSILON),
        (0.1, 0.1, EPSILON),
        (None, None, EPSILON),
        (Fraction(1, 2), 0.5, EPSILON),
        (np.float64(0.1), 0.1, EPSILON),
        (np.float32(0.5), 0.5, 2.0**-23),
        (np.float16(0.5), 0.5, 2.0**-10),
        (np.bool_(True), 1.0, EPSILON),
        (np.int64(3), 3.0, EPSILON),
        (np.array(0.5, dtype=np.float32), 0.5, 2.0**-23),
        (torch.tensor(0.5), 0.5, 2.0**-23),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5, 2.0**-7),
        (torch.tensor(True), 1.0, EPSILON),
        (torch.tensor(3), 3.0, EPSILON),
    ],
)
def test_numbers_of_all_kinds(value: Any, total: float | None, epsilon: float) -> None:
    row = parse_row(value, turns=1)
    assert (row.total, row.turns, row.epsilon) == (total, None, epsilon)


def test_a_list_has_one_number_a_turn() -> None:
    row = parse_row([1, None, 0.5], turns=3)
    assert (row.total, row.turns) == (1.5, [1.0, None, 0.5])
    assert parse_row([None, None], turns=2).total is None
    assert parse_row([], turns=0).total is None
    row = parse_row(torch.tensor([1.0, 2.0]), turns=2)
    assert (row.total, row.turns, row.epsilon) == (3.0, [1.0, 2.0], 2.0**-23)


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (float("nan"), "not finite"),
        (float("-inf"), "not finite"),
        (torch.tensor(float("nan")), "not finite"),
        (np.float32("inf"), "not finite"),
        (10**400, "too large"),
        ("1", "no number"),
        (1j, "no number"),
        (torch.tensor(1j), "no number"),
        ({}, "no number"),
        ([1.0], "gave 1 scores for the 2 turns"),
        ([1.0, float("nan")], "not finite"),
        ([1.0, [2.0]], "no number"),
        ([1e308, 1e308], "not finite"),
        (torch.ones((), requires_grad=True), "carries a gradient"),
        (torch.ones(2, requires_grad=True), "carries a gradient"),
    ],
)
def test_what_is_no_score_is_refused(value: Any, cause: str) -> None:
    with pytest.raises(InvalidScore, match=cause):
        parse_row(value, turns=2)


@pytest.mark.parametrize("returned", [[1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), range(1, 3)])
def test_sequences_of_all_kinds(returned: Any) -> None:
    assert [parse_row(value, 1).total for value in split_rows(returned, 2)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("returned", "cause"),
    [
        ([1.0], "returned 1 scores for 2 rows"),
        (1.0, "not a list"),
        (None, "not a list"),
        ("ab", "not a list"),
        ({0: 1.0, 1: 2.0}, "not a list"),
        (torch.tensor(1.0), "not a list"),
        (torch.ones(2, requires_grad=True), "carries a gradient"),
    ],
)
def test_what_is_no_list_of_scores_is_refused(returned: Any, cause: str) -> None:
    with pytest.raises(InvalidScore, match=cause):
        split_rows(returned, 2)


@pytest.mark.parametrize(
    ("returned", "kinds"),
    [
        ([1.0], ["wrong_length"] * 2),
        (None, ["wrong_length"] * 2),
        ([1.0, [1.0, 2.0]], [None, "wrong_length"]),
        ([1.0, "good"], [None, "no_number"]),
        ([float("nan"), float("inf")], ["not_finite"] * 2),
        ([10**400, 1.0], ["not_finite", None]),
        (torch.ones(2, requires_grad=True), ["gradient"] * 2),
        ([1.0, torch.ones((), requires_grad=True)], [None, "gradient"]),
    ],
)
def test_kinds_of_failures_by_row(returned: Any, kinds: list[str | None]) -> None:
    rows = read_rows(returned, [1, 1])
    assert [row.kind if isinstance(row, InvalidScore) else None for row in rows] == kinds


@pytest.mark.parametrize(
    ("total", "allowed", "inside"),
    [
        (0.0, [0.0, 1.0], True),
        (1.0, [0.0, 1.0], True),
        (1.5, [0.0, 1.0], False),
        (-0.1, [0.0, None], False),
        (99.0, [0.0, None], True),
        (-99.0, [None, 1.0], True),
        (None, [0.0, 1.0], True),
        (5.0, None, True),
    ],
)
def test_ranges(total: float | None, allowed: Any, inside: bool) -> None:
    found = within(RowScore(total), allowed)
    assert isinstance(found, RowScore) is inside
    if not inside:
        assert isinstance(found, InvalidScore)
        assert found.kind == "out_of_range"
    failure = InvalidScore("x", "raised")
    assert within(failure, allowed) is failure
