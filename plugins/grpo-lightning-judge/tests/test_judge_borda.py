from __future__ import annotations

import pytest
from grpo_lightning_judge.borda import borda


def test_points_of_one_ranking() -> None:
    assert borda([[1, 0, 3, 2]], 4) == [pytest.approx(2 / 3), 1.0, 0.0, pytest.approx(1 / 3)]


def test_mean_over_rankings() -> None:
    # 0: 1, 1/2 -> 3/4; 1: 1/2, 0 -> 1/4; 2: 0, 1 -> 1/2.
    assert borda([[0, 1, 2], [2, 0, 1]], 3) == [0.75, 0.25, 0.5]


def test_one_item_is_in_the_middle() -> None:
    assert borda([[0]], 1) == [0.5]
