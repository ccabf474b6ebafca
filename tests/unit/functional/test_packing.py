from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.packing import pack, worst_case_bins

SIZES = st.lists(st.integers(0, 40), max_size=40)


def test_by_hand() -> None:
    # 5 and 4 do not fit into 8 with each other; 4 and 3 do; then 3, 2, 2.
    assert pack([3, 5, 2, 4, 3, 2], capacity=8) == [[1], [3, 0], [4, 2, 5]]
    assert pack([], capacity=8) == []
    assert pack([8, 8], capacity=8) == [[0], [1]]
    assert pack([4, 4, 4, 4], capacity=8) == [[0, 1], [2, 3]]


def test_an_item_above_the_capacity_is_alone() -> None:
    assert pack([20, 1, 30, 0], capacity=8) == [[2], [0], [1, 3]]


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, capacity=st.integers(1, 60))
def test_every_item_once_within_the_capacity_and_the_bound(sizes: list[int], capacity: int) -> None:
    bins = pack(sizes, capacity)
    assert sorted(index for each in bins for index in each) == list(range(len(sizes)))
    for each in bins:
        assert each
        assert len(each) == 1 or sum(sizes[index] for index in each) <= capacity
    for largest in {max(sizes, default=1), max(sizes, default=1) + 7}:
        assert len(bins) <= worst_case_bins(len(sizes), largest, capacity)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, capacity=st.integers(1, 60))
def test_bins_hold_items_of_like_size_from_large_to_small(sizes: list[int], capacity: int) -> None:
    order = [(-sizes[index], index) for each in pack(sizes, capacity) for index in each]
    assert order == sorted(order)


def test_the_bound_by_hand() -> None:
    assert worst_case_bins(10, largest=3, capacity=8) == 5  # two items a bin at least
    assert worst_case_bins(11, largest=3, capacity=8) == 6
    assert worst_case_bins(10, largest=9, capacity=8) == 10
    assert worst_case_bins(0, largest=3, capacity=8) == 1
    assert worst_case_bins(5, largest=0, capacity=8) == 1
    assert worst_case_bins(4, largest=8, capacity=8) == 4


def test_the_bound_is_reached_by_equal_items() -> None:
    assert len(pack([3] * 11, capacity=8)) == worst_case_bins(11, largest=3, capacity=8)
