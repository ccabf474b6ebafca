from __future__ import annotations

from itertools import permutations

import pytest
from grpo_lightning_judge.feedback_arcs import greedy_order
from grpo_lightning_judge.kemeny import cost_of, order_shares
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def tournaments(draw: st.DrawFn, most: int) -> list[list[float]]:
    size = draw(st.integers(1, most))
    weights = [[0.0] * size for _ in range(size)]
    for one in range(size):
        for other in range(one):
            margin = draw(st.sampled_from([-1.0, -0.6, -0.2, 0.0, 0.2, 0.6, 1.0]))
            weights[one][other], weights[other][one] = max(margin, 0.0), max(-margin, 0.0)
    return weights


def brute_force(weights: list[list[float]]) -> list[tuple[int, ...]]:
    costs = {}
    for order in permutations(range(len(weights))):
        places = {item: place for place, item in enumerate(order)}
        costs[order] = sum(weights[one][other] for one in order for other in order if places[other] < places[one])
    least = min(costs.values())
    return [order for order, cost in costs.items() if cost <= least + 1e-9]


@given(tournaments(most=6))
@settings(max_examples=60, deadline=None)
def test_shares_are_those_of_all_minimal_orders(weights: list[list[float]]) -> None:
    minimal = brute_force(weights)
    shares = order_shares(weights)
    for one in range(len(weights)):
        for other in range(len(weights)):
            if one != other:
                expected = sum(order.index(one) < order.index(other) for order in minimal) / len(minimal)
                assert shares[one][other] == pytest.approx(expected)


@given(tournaments(most=6))
@settings(max_examples=60, deadline=None)
def test_greedy_order_is_a_permutation_that_no_single_move_betters(weights: list[list[float]]) -> None:
    order = greedy_order(weights)
    assert sorted(order) == list(range(len(weights)))
    cost = cost_of(order, weights)
    assert cost >= cost_of(brute_force(weights)[0], weights) - 1e-9
    for item in order:
        rest = [other for other in order if other != item]
        for place in range(len(order)):
            assert cost_of([*rest[:place], item, *rest[place:]], weights) >= cost - 1e-9


def test_greedy_order_is_minimal_without_circles() -> None:
    # 3 > 1 > 4 > 0 > 2, every pair decided.
    ranked = [3, 1, 4, 0, 2]
    weights = [[float(ranked.index(i) < ranked.index(j)) for j in range(5)] for i in range(5)]
    assert greedy_order(weights) == ranked


def test_the_lightest_win_of_a_circle_is_turned() -> None:
    # 0 > 1 (1.0), 1 > 2 (0.6), 2 > 0 (0.2): only 0, 1, 2 contradicts no more than 0.2.
    weights = [[0, 1.0, 0], [0, 0, 0.6], [0.2, 0, 0]]
    shares = order_shares(weights)
    assert [shares[0][1], shares[1][2], shares[0][2]] == [1.0, 1.0, 1.0]
    assert cost_of([0, 1, 2], weights) == pytest.approx(0.2)
    assert greedy_order(weights) == [0, 1, 2]


def test_nothing_and_one() -> None:
    assert order_shares([]) == []
    assert order_shares([[0.0]]) == [[0.0]]
    assert greedy_order([]) == []
