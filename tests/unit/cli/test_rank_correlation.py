from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from grpo_lightning.cli.rank_correlation import kendall, ranks, spearman


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks(tensor(5, 1, 5, 5, 0)).tolist() == [4.0, 2.0, 4.0, 4.0, 1.0]


def test_values_by_hand() -> None:
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 (1 + 1 + 1 + 1) / (4 * 15) = 0.6. Of 6 pairs 4 agree and 2 do not.
    first, second = tensor(1, 2, 3, 4), tensor(20, 10, 40, 30)
    assert spearman(first, second) == pytest.approx(0.6)
    assert kendall(first, second) == pytest.approx(1 / 3)


def test_ties_by_hand() -> None:
    # Ranks 1.5 1.5 3 and 1 2 3, less 2: products 0.5, 0 and 1; squares 0.25 + 0.25 + 1 and 1 + 0 + 1.
    first, second = tensor(0, 0, 1), tensor(0, 1, 2)
    assert spearman(first, second) == pytest.approx(1.5 / (1.5 * 2) ** 0.5)
    assert kendall(first, second) == pytest.approx(2 / (2 * 3) ** 0.5)  # 2 pairs agree; 2 and 3 are not tied


def test_opposite_and_equal_orders() -> None:
    assert spearman(tensor(1, 2, 3), tensor(9, 4, 1)) == pytest.approx(-1)
    assert kendall(tensor(1, 2, 3), tensor(9, 4, 1)) == pytest.approx(-1)
    assert spearman(tensor(1, 2, 3), tensor(-3, 0, 100)) == pytest.approx(1)


def test_a_constant_list_has_no_order() -> None:
    assert spearman(tensor(1, 1), tensor(1, 2)) is None
    assert kendall(tensor(1, 2), tensor(1, 1)) is None
    assert spearman(tensor(1), tensor(1)) is None
    assert kendall(tensor(), tensor()) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_as_scipy_has_it(pairs: list[tuple[int, int]]) -> None:
    first, second = tensor(*(a for a, _ in pairs)), tensor(*(b for _, b in pairs))
    if first.unique().numel() < 2 or second.unique().numel() < 2:
        assert spearman(first, second) is None
        assert kendall(first, second) is None
        return
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)
    assert kendall(first, second) == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-9)
