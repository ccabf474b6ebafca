from __future__ import annotations

import pytest
from grpo_lightning_judge.wins import credit, credits_of, rewards_of
from hypothesis import given, settings
from hypothesis import strategies as st


def test_wins_within_a_group() -> None:
    # 0 beats 1 and 2, 1 beats 2.
    margins = [[None, 1.0, 1.0], [-1.0, None, 0.5], [-1.0, -0.5, None]]
    earned = credits_of(margins, tie=0.0)
    assert rewards_of(earned, opponents=2, alpha=1.0, normalise=False) == [2.0, 1.0, 0.0]
    assert rewards_of(earned, opponents=2, alpha=0.5, normalise=False) == [1.0, 0.5, 0.0]
    assert rewards_of(earned, opponents=2, alpha=0.5, normalise=True) == [1.0, 0.5, 0.0]


def test_a_tie_counts_as_it_is_told() -> None:
    margins = [[None, 0.0], [0.0, None]]
    assert rewards_of(credits_of(margins, 0.0), opponents=1, alpha=1.0, normalise=True) == [0.0, 0.0]
    assert rewards_of(credits_of(margins, 0.5), opponents=1, alpha=1.0, normalise=True) == [0.5, 0.5]


def test_wins_against_anchors() -> None:
    # One response, four anchors: two wins, a loss, a tie.
    earned = [[credit(margin, 0.0) for margin in (1.0, 0.2, -1.0, 0.0)]]
    assert rewards_of(earned, opponents=4, alpha=2.0, normalise=False) == [4.0]
    assert rewards_of(earned, opponents=4, alpha=2.0, normalise=True) == [0.5]


def test_wins_are_scaled_up_where_some_were_not_compared() -> None:
    # Met 2 of 3, won 1: 1.5 wins of 3.
    assert rewards_of([[1.0, None, 0.0]], opponents=3, alpha=1.0, normalise=False) == [1.5]
    assert rewards_of([[None, None]], opponents=2, alpha=1.0, normalise=False) == [None]


@given(st.integers(2, 8), st.data())
@settings(max_examples=40, deadline=None)
def test_wins_sum_to_the_number_of_pairs_without_ties(size: int, data: st.DataObject) -> None:
    margins: list[list[float | None]] = [[None] * size for _ in range(size)]
    for one in range(size):
        for other in range(one):
            margin = data.draw(st.sampled_from([-1.0, -0.5, 0.5, 1.0]))
            margins[one][other], margins[other][one] = margin, -margin
    rewards = rewards_of(credits_of(margins, 0.0), opponents=size - 1, alpha=1.0, normalise=False)
    assert sum(value for value in rewards if value is not None) == pytest.approx(size * (size - 1) / 2)
