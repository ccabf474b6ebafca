from __future__ import annotations

from itertools import permutations

import pytest
from grpo_lightning_judge.acyclic import acyclic_credits, strong_components
from grpo_lightning_judge.wins import credits_of
from hypothesis import given, settings
from hypothesis import strategies as st


def margins_of(size: int, results: dict[tuple[int, int], float]) -> list[list[float | None]]:
    margins: list[list[float | None]] = [[None] * size for _ in range(size)]
    for (one, other), margin in results.items():
        margins[one][other], margins[other][one] = margin, -margin
    return margins


def test_without_circles_nothing_changes() -> None:
    margins = margins_of(4, {(0, 1): 1.0, (0, 2): 0.2, (1, 2): 0.0, (2, 3): 1.0})
    assert acyclic_credits(margins, 0.5) == credits_of(margins, 0.5)


def test_an_equal_circle_of_three_gives_two_thirds_each() -> None:
    earned = acyclic_credits(margins_of(3, {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0}), 0.0)
    assert earned[0] == [None, pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert [sum(value or 0.0 for value in row) for row in earned] == [pytest.approx(1.0)] * 3


def test_the_lightest_win_is_turned_and_outsiders_keep_theirs() -> None:
    # 0 > 1 > 2 > 0, the last by a hair; 3 loses to all of them.
    results = {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 0.2, (0, 3): 0.2, (1, 3): 1.0, (2, 3): 1.0}
    earned = acyclic_credits(margins_of(4, results), 0.0)
    assert [sum(value or 0.0 for value in row) for row in earned] == [3.0, 2.0, 1.0, 0.0]


def test_a_large_circle_is_made_acyclic_by_the_greedy_order() -> None:
    size = 11  # i beats the next five round the circle, the nearest the clearest
    results = {(i, (i + step) % size): 1.0 - 0.1 * step for i in range(size) for step in range(1, 6)}
    earned = acyclic_credits(margins_of(size, results), 0.0)
    beats = [[float(value == 1.0) for value in row] for row in earned]
    assert all(len(component) == 1 for component in strong_components(beats))
    assert sorted(sum(row) for row in beats) == list(map(float, range(size)))  # every pair was decided


@st.composite
def drawn_margins(draw: st.DrawFn) -> list[list[float | None]]:
    size = draw(st.integers(2, 6))
    cells = {(i, j): draw(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, None])) for i in range(size) for j in range(i)}
    return margins_of(size, {pair: margin for pair, margin in cells.items() if margin is not None})


@given(drawn_margins())
@settings(max_examples=60, deadline=None)
def test_credits_of_decided_pairs_sum_to_one_and_do_not_depend_on_the_listing(
    margins: list[list[float | None]],
) -> None:
    earned = acyclic_credits(margins, 0.0)
    size = len(margins)
    for one in range(size):
        for other in range(size):
            if margins[one][other]:
                assert (earned[one][other] or 0.0) + (earned[other][one] or 0.0) == pytest.approx(1.0)
    order = list(permutations(range(size)))[-1]
    moved = acyclic_credits([[margins[one][other] for other in order] for one in order], 0.0)
    for row, one in enumerate(order):
        for column, other in enumerate(order):
            assert moved[row][column] == (None if earned[one][other] is None else pytest.approx(earned[one][other]))
